//! One world: a space with random options, threads, quiet moments, forks, and the end.

use crate::dice::Dice;
use crate::owners::{self, Owner, sure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use vmalloc::{Config, Policy, ReadNofault, Space};
use vmalloc_linux::rcu::Grace;
use vmalloc_linux::{BatchAdvise, Guards, Linux, Options, open};

pub(crate) type Sp = Arc<Space<Linux>>;

/// The size of a page on the machines that this runs on, which `run` checks.
pub(crate) const PAGE: usize = 4096;

/// The most freed ranges that are remembered, to look at them after a flush.
const REMEMBERED: usize = 20_000;

/// Whether the first thread forks in each quiet moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forks {
    /// It does. The child goes on with all that its parent had.
    Some,
    /// It does not.
    None,
}

/// A space, and what its owners share.
pub(crate) struct World {
    pub(crate) space: Sp,
    pub(crate) has_frames: bool,
    grace: Grace,
    freed: Mutex<Vec<(usize, usize)>>,
    process: u32,
}

impl World {
    /// Returns where the span begins, and its bytes.
    pub(crate) fn span(&self) -> (usize, usize) {
        let geometry = self.space.geometry();
        (geometry.span.start() as usize * PAGE, geometry.span.len() as usize * PAGE)
    }

    /// Notes that these bytes are freed in a moment.
    pub(crate) fn freed(&self, addr: usize, bytes: usize) {
        if let Ok(mut freed) = self.freed.try_lock()
            && freed.len() < REMEMBERED
        {
            freed.push((addr, bytes));
        }
    }

    /// Frees an area once no reader is left that could have found it. A child leaves that to others.
    pub(crate) fn defer(&self, addr: usize) -> bool {
        // SAFETY: the area is the caller's, and nothing uses it any more.
        !self.is_child() && unsafe { self.grace.free(addr) }.is_ok()
    }

    fn is_child(&self) -> bool {
        std::process::id() != self.process
    }

    /// Does one thing to one of `owners`, of which there are not more than `most`.
    fn step(&self, dice: &mut Dice, owners: &mut Vec<Box<dyn Owner>>, most: usize) {
        let is_full = owners.len() >= most;
        match dice.below(10) {
            0..=4 if !is_full => owners.extend(owners::make(self, dice)),
            0 => self.look_around(dice),
            _ if owners.is_empty() => {}
            1..=6 => {
                let owner = dice.below(owners.len());
                owners[owner].check();
                owners[owner].change(self, dice);
            }
            _ => {
                let owner = owners.swap_remove(dice.below(owners.len()));
                owner.check();
                owner.end(self, dice);
            }
        }
    }

    /// Calls what looks at the whole space, or changes what waits in it.
    fn look_around(&self, dice: &mut Dice) {
        let space = &self.space;
        match dice.below(9) {
            0 => sure(space.purge(), "a purge"),
            1 => sure(space.flush(), "a flush"),
            2 => sure(space.decay(), "a decay"),
            3 => drop(sure(space.drain(), "a drain")),
            4 => drop(sure(space.shrink(dice.below(space.shrinkable() as usize + 3) as u64), "a shrink")),
            5 => assert_ne!(space.vmallocinfo().to_string().len() + space.segments().count(), 0),
            6 => {
                let (start, bytes) = self.span();
                let addr = start + dice.below(bytes);
                let _ = (space.find(addr), space.try_find(addr), space.stats());
                space.read(addr, &mut [0; 10_000]);
            }
            7 => assert!(space.cached().count() < usize::MAX),
            _ => assert!(space.areas().all(|area| area.bytes != 0)),
        }
    }

    /// Checks what holds while no other thread does anything.
    fn check_quiet(&self, dice: &mut Dice) {
        sure(self.grace.settle(), "settling");
        sure(self.space.flush(), "a flush");
        sure(self.space.verify(), "the invariants");
        let stats = self.space.stats();
        assert_eq!((stats.refused_areas, stats.refused_pages), (0, 0), "{stats:?}");
        assert_eq!((stats.lazy_pages, stats.cached_pages), (0, 0), "{stats:?}");
        let all = stats.free_pages + stats.busy_pages + stats.pooled_pages;
        assert_eq!(all, stats.span_pages, "{stats:?}");
        let freed = self.freed.lock().expect("no thread has panicked");
        for _ in 0..freed.len().min(300) {
            let (addr, bytes) = freed[dice.below(freed.len())];
            self.check_gone((addr + dice.below(bytes)) / PAGE * PAGE);
        }
        for area in self.space.areas().filter(|area| area.guard).take(200) {
            let guard = area.addr + area.pages as usize * PAGE;
            assert!(!self.can_be_read(guard), "the guard of {area:?} can be read");
        }
    }

    /// Checks that a page which is in no area any more can't be read, and has no memory.
    fn check_gone(&self, addr: usize) {
        if !self.space.contains(addr) || self.space.find(addr).is_some() {
            return;
        }
        assert!(!self.can_be_read(addr), "a freed page at {addr:#x} can be read after a flush");
        assert!(!has_memory(addr), "a freed page at {addr:#x} has memory after a flush");
    }

    fn can_be_read(&self, addr: usize) -> bool {
        self.space.platform().read_nofault(addr, &mut [0]) == 1
    }

    /// Forks. The child goes on for a while with all that the thread has, and leaves the rest alone.
    fn fork(&self, dice: &mut Dice, owners: &mut Vec<Box<dyn Owner>>, most: usize) {
        // SAFETY: the child uses the space, which is safe around forks, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a fork failed");
        if child == 0 {
            // SAFETY: no conditions. A child that hangs must not hang the world.
            unsafe { libc::alarm(120) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..200).for_each(|_| self.step(dice, owners, most));
                sure(self.space.verify(), "the invariants in a child");
                sure(self.space.purge(), "a purge in a child");
                sure(self.space.verify(), "the invariants in a child");
            }));
            // SAFETY: no conditions.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: room for a status; the child is this thread's.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "a child ended with this wait status");
    }
}

/// Returns whether there is memory behind a page: proc_pid_pagemap(5) tells.
fn has_memory(addr: usize) -> bool {
    const PRESENT: u64 = 1 << 63;
    let mut entry = [0; size_of::<u64>()];
    let map = File::open("/proc/self/pagemap").expect("a process may look at itself");
    let offset = (addr / PAGE * size_of::<u64>()) as u64;
    map.read_exact_at(&mut entry, offset).expect("there is an entry for it");
    u64::from_ne_bytes(entry) & PRESENT != 0
}

fn options(dice: &mut Dice) -> (Options, bool) {
    let mut options = Options::new().max_bytes(1 << 36);
    if dice.one_in(2) {
        options = options.exactly((64 << 20) << dice.below(8));
    }
    let has_frames = !dice.one_in(5);
    options = match (has_frames, dice.one_in(3)) {
        (false, _) => options.frame_bytes(0),
        (true, true) => options.frame_bytes(4 << 20),
        (true, false) => options,
    };
    if dice.one_in(2) {
        options = options.guards(dice.pick(&[Guards::PteMarkers, Guards::Mprotect, Guards::Userfault]));
    } else if dice.one_in(3) {
        options = options.trap_frees();
    }
    if dice.one_in(3) {
        let all = [BatchAdvise::PidfdSelf, BatchAdvise::Pidfd, BatchAdvise::Loop];
        options = options.batch_advise(dice.pick(&all));
    }
    if dice.one_in(3) {
        options = options.without_drain_thread();
    }
    if dice.one_in(3) {
        options = options.populate();
    }
    if dice.one_in(4) {
        options = options.stash_bytes(dice.pick(&[0, 1 << 20, 1 << 30]));
    }
    if dice.one_in(4) {
        options = options.dont_dump();
    }
    (options, has_frames)
}

fn config(dice: &mut Dice) -> Config {
    let mut config = Config::default().guard(!dice.one_in(3));
    if dice.one_in(2) {
        config = config.cache_bytes(dice.pick(&[0, 1 << 20, 4 << 20, 64 << 20, usize::MAX]));
    }
    if dice.one_in(3) {
        config = config.least_cache_bytes(dice.pick(&[0, 1 << 20, 16 << 20]));
    }
    if dice.one_in(4) {
        config = config.trap_on_free(true);
    }
    if dice.one_in(4) {
        config = config.zero_on_free(true);
    }
    if dice.one_in(2) {
        config = config.max_slack_percent(dice.pick(&[0, 1, 25, 100]));
    }
    if dice.one_in(2) {
        config = config.lazy_max_pages(dice.pick(&[1, 16, 1000, 100_000, u64::MAX]));
    }
    if dice.one_in(2) {
        config = config.nodes(1 + dice.below(6));
    }
    if dice.one_in(3) {
        config = config.policy(dice.pick(&[Policy::Lowest, Policy::Highest, Policy::Random { seed: 3 }]));
    }
    if dice.one_in(3) {
        config = config.block_slots(64 << dice.below(5));
    }
    config
}

/// Runs the world of a seed for about `time`. Returns how many steps its threads made; 0 for options
/// that this kernel refuses.
///
/// # Panics
/// When something does not hold. The options and the seed are printed before.
pub fn run(seed: u64, time: Duration, forks: Forks) -> u64 {
    let mut dice = Dice::new(seed);
    let ((options, has_frames), config) = (options(&mut dice), config(&mut dice));
    println!("world {seed:#x}, forks: {forks:?}, {options:?}, {config:?}");
    let space = match open(options, config) {
        Ok(space) => space,
        Err(error) => {
            println!("  refused: {error}");
            return 0;
        }
    };
    assert_eq!(space.geometry().page_bytes(), PAGE);
    let (grace, freed) = (Grace::new(&space), Mutex::default());
    let has_frames = has_frames && space.geometry().linear_map.is_some();
    let world = World { space, has_frames, grace, freed, process: std::process::id() };
    let threads = 1 + usize::from(!dice.one_in(4));
    let (most, steps) = (dice.pick(&[5, 40, 200]), dice.pick(&[200, 1000]));
    let (barrier, stop, end) = (Barrier::new(threads), AtomicBool::new(false), Instant::now() + time);
    let made: u64 = thread::scope(|scope| {
        let live = |nth: usize, mut dice: Dice| {
            let (mut owners, mut made) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                (0..steps).for_each(|_| world.step(&mut dice, &mut owners, most));
                made += steps;
                if nth == 0 && forks == Forks::Some {
                    world.fork(&mut dice, &mut owners, most);
                }
                barrier.wait();
                if nth == 0 {
                    world.check_quiet(&mut dice);
                    stop.store(Instant::now() > end, Ordering::Relaxed);
                }
                barrier.wait();
                owners.iter().for_each(|owner| owner.check());
            }
            owners.into_iter().for_each(|owner| owner.end(&world, &mut dice));
            made
        };
        let handles: Vec<_> = (0..threads)
            .map(|nth| (nth, Dice::new(dice.any())))
            .map(|(nth, dice)| scope.spawn(move || guarded(|| live(nth, dice))))
            .collect();
        handles.into_iter().map(|thread| thread.join().expect("a panic aborts")).sum()
    });
    check_end(&world);
    made
}

/// Ends the program where a thread panics, for the others would wait for it at the barrier.
fn guarded(live: impl FnOnce() -> u64) -> u64 {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(live)).unwrap_or_else(|_| abort())
}

fn check_end(world: &World) {
    sure(world.grace.settle(), "settling");
    sure(world.space.purge(), "the last purge");
    sure(world.space.verify(), "the invariants at the end");
    let stats = world.space.stats();
    let whole = (0, stats.span_pages, stats.span_pages);
    assert_eq!((stats.busy_areas, stats.free_pages, stats.largest_free_pages), whole, "{stats:?}");
}
