//! The world of the whole API: a space with random options, and programs that share it.

use crate::dice::Dice;
use crate::life::{Forks, Life, live};
use crate::look::has_memory;
use crate::owners::sure;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use vmalloc::{PageRange, ReadNofault, Space};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open, page_bytes};
use vmalloc_programs::{Nofault, Player, Program, random_options};
use vmalloc_short::ShortMaps;

pub(crate) type Sp = Arc<Space<Linux>>;

/// The most freed ranges that are remembered, to look at them after a flush.
const REMEMBERED: usize = 20_000;

/// Returns what each owner does.
fn program(has_frames: bool) -> &'static Program<Linux> {
    static PROGRAMS: OnceLock<[Program<Linux>; 2]> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        let memory = || Program::new(Nofault).live(4).protect().memory().resize().code().discard();
        [memory().shared(), memory().frames().shared()]
    });
    &programs[usize::from(has_frames)]
}

/// A space, and what its owners share. Each owner is a program that is played step by step.
struct World {
    space: Sp,
    program: &'static Program<Linux>,
    freed: Mutex<Vec<PageRange>>,
}

impl World {
    /// Notes what was freed, to look at it after a flush.
    fn note_freed(&self, owner: &mut Player<'static, Linux>) {
        if let Ok(mut freed) = self.freed.try_lock() {
            freed.extend(owner.take_freed());
            freed.truncate(REMEMBERED);
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
}

impl Life for World {
    type Owner = RefCell<Player<'static, Linux>>;

    fn make(&self, dice: &mut Dice) -> Option<Self::Owner> {
        Some(RefCell::new(self.program.join(Arc::clone(&self.space), dice.any())))
    }

    fn check(&self, owner: &Self::Owner) {
        owner.borrow_mut().check();
    }

    fn change(&self, owner: &mut Self::Owner, dice: &mut Dice) {
        (0..1 + dice.below(16)).for_each(|_| owner.get_mut().step());
    }

    fn end(&self, mut owner: Self::Owner, _: &mut Dice) {
        owner.get_mut().free_all();
        self.note_freed(owner.get_mut());
    }

    fn tell(&self, owners: &[Self::Owner]) {
        owners.iter().for_each(|owner| self.note_freed(&mut owner.borrow_mut()));
    }

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
                let span = space.geometry().span;
                let addr = (span.start() as usize + dice.below(span.len() as usize)) * page_bytes();
                let _ = (space.find(addr), space.try_find(addr), space.stats());
                space.read(addr, &mut [0; 10_000]);
            }
            7 => assert!(space.cached().count() < usize::MAX),
            _ => assert!(space.areas().all(|area| area.bytes != 0)),
        }
    }

    fn check_quiet(&self, dice: &mut Dice) {
        sure(self.space.flush(), "a flush");
        sure(self.space.verify(), "the invariants");
        let stats = self.space.stats();
        assert_eq!((stats.refused_areas, stats.refused_pages), (0, 0), "{stats:?}");
        assert_eq!((stats.lazy_pages, stats.cached_pages), (0, 0), "{stats:?}");
        let all = stats.free_pages + stats.busy_pages + stats.pooled_pages;
        assert_eq!(all, stats.span_pages, "{stats:?}");
        let freed = self.freed.lock().expect("no thread has panicked");
        for _ in 0..freed.len().min(300) {
            let range = freed[dice.below(freed.len())];
            self.check_gone((range.start() as usize + dice.below(range.len() as usize)) * page_bytes());
        }
        for area in self.space.areas().filter(|area| area.guard).take(200) {
            let guard = area.addr + area.pages as usize * page_bytes();
            assert!(!self.can_be_read(guard), "the guard of {area:?} can be read");
        }
    }

    fn check_child(&self) {
        check_space_of_child(&self.space);
    }
}

/// Checks a space in the child of a fork.
pub(crate) fn check_space_of_child(space: &Space<Linux>) {
    sure(space.verify(), "the invariants in a child");
    sure(space.purge(), "a purge in a child");
    sure(space.verify(), "the invariants in a child");
}

/// Returns random options of a space, and whether it has frames.
pub(crate) fn options(dice: &mut Dice) -> (LinuxOptions, bool) {
    let mut options = LinuxOptions::new().max_bytes(1 << 36);
    if dice.one_in(2) {
        options = options.max_bytes((64 << 20) << dice.below(8));
    }
    let has_frames = !dice.one_in(5);
    options = match (has_frames, dice.one_in(3)) {
        (false, _) => options.frame_bytes(0),
        (true, true) => options.frame_bytes(4 << 20),
        (true, false) => options,
    };
    if dice.one_in(2) {
        options = options.guard_means(dice.pick(&[
            GuardMeans::PteMarkers,
            GuardMeans::Mprotect,
            GuardMeans::Userfault,
        ]));
    }
    if dice.one_in(3) {
        options = options.drain_thread(false);
    }
    if dice.one_in(3) {
        options = options.populate(true);
    }
    if dice.one_in(4) {
        options = options.dump(false);
    }
    (options, has_frames)
}

/// Opens a space with random options, which it prints. Returns it, and whether frames were asked
/// for; `None` for options that this kernel refuses.
pub(crate) fn open_space(dice: &mut Dice) -> Option<(Sp, bool)> {
    let ((options, has_frames), space_options) = (options(dice), random_options(&mut dice.0, page_bytes()));
    println!("  {options:?}, {space_options:?}");
    let space = open(options, space_options).map_err(|error| println!("  refused: {error}")).ok()?;
    assert_eq!(space.geometry().page_bytes(), page_bytes());
    Some((space, has_frames))
}

/// Runs a world of the whole API. Returns how many steps its threads made; 0 for options that this
/// kernel refuses.
pub(crate) fn run(dice: &mut Dice, time: Duration, forks: Forks) -> u64 {
    let Some((space, has_frames)) = open_space(dice) else { return 0 };
    let has_frames = has_frames && space.geometry().linear_map.is_some();
    let slots = if dice.one_in(3) { 64 << dice.below(5) } else { 0 };
    sure(ShortMaps::with_block_slots(Arc::clone(&space), slots), "short mappings");
    let world = World { space, program: program(has_frames), freed: Mutex::default() };
    let made = live(&world, dice, time, forks);
    check_whole(&world.space);
    made
}

/// Checks that a space is whole: one free range, and no area.
pub(crate) fn check_whole(space: &Space<Linux>) {
    sure(space.purge(), "the last purge");
    sure(space.verify(), "the invariants at the end");
    let stats = space.stats();
    let whole = (0, stats.span_pages, stats.span_pages);
    assert_eq!((stats.busy_areas, stats.free_pages, stats.largest_free_pages), whole, "{stats:?}");
}
