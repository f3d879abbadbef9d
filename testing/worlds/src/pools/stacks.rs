//! The world of stacks: plain, named and growable ones, of one pool and of pools that are gone.

use crate::dice::Dice;
use crate::life::{Forks, Life, live};
use crate::look::has_memory;
use crate::owners::made;
use crate::owners::memory::Pages;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use vmalloc_harness::peek;
use vmalloc_linux::page_bytes;
use vmalloc_stacks::{Growable, LinuxOptions, Stack, StackError, Stacks, StacksOptions};

/// The most dropped stacks that are remembered, to look at them once the pool is cleared.
const REMEMBERED: usize = 5000;

/// The areas that a pool has without any stack: the first page of its span.
const OWN_AREAS: u64 = 1;

/// A pool, and what its owners share.
struct World {
    stacks: Stacks,
    has_threads: bool,
    process: u32,
    handed_over: Mutex<Vec<Held>>,
    /// The stacks in use, as a quiet moment begins.
    busy: Mutex<Vec<Range<usize>>>,
    dropped: Mutex<Vec<Range<usize>>>,
}

enum Memory {
    Plain(Stack),
    Growable(Growable, usize),
}

impl Memory {
    /// Returns all its addresses, with those that it has not grown into.
    fn range(&self) -> Range<usize> {
        match self {
            Self::Plain(stack) => stack.bottom()..stack.top(),
            Self::Growable(stack, _) => stack.guard().end..stack.top(),
        }
    }
}

/// A stack, and the numbers of its pages, with those that it has not grown into.
struct Held {
    memory: Memory,
    /// Tells if its pool has no handle any more.
    is_orphan: bool,
    pages: Pages,
}

impl Held {
    fn new(memory: Memory) -> Self {
        let range = memory.range();
        Self { memory, is_orphan: false, pages: Pages::new(range.start, range.len(), false) }
    }

    fn top(&self) -> usize {
        match &self.memory {
            Memory::Plain(stack) => stack.top(),
            Memory::Growable(stack, _) => stack.top(),
        }
    }

    fn size(&self) -> usize {
        match &self.memory {
            Memory::Plain(stack) => stack.len(),
            Memory::Growable(stack, _) => stack.len(),
        }
    }

    fn range(&self) -> Range<usize> {
        self.memory.range()
    }

    /// Writes the top and the bottom, and perhaps all between, as deep frames do.
    fn write_some(&mut self, dice: &mut Dice) {
        let (top, pages) = (self.pages.len(), self.size() / page_bytes());
        if pages == 0 {
            return;
        }
        self.pages.write(top - 1, dice.any());
        if dice.one_in(2) {
            self.pages.write(top - pages, dice.any());
        }
        if dice.one_in(3) {
            (1..=dice.below(pages.min(300) + 1)).for_each(|page| self.pages.write(top - page, dice.any()));
        }
    }

    fn check_traps(&self) {
        let range = self.range();
        let mut traps =
            vec![range.start - 1, range.start - page_bytes(), range.end, range.end + page_bytes() - 1];
        if self.size() < range.len() {
            traps.extend([range.start, self.top() - self.size() - 1]);
        }
        for trap in traps {
            assert!(peek(trap).is_none(), "{trap:#x} can be read: {range:x?}, {:#x} bytes", self.size());
        }
    }

    /// Grows or shrinks a stack that can, perhaps while another thread grows it too.
    fn resize(&mut self, dice: &mut Dice, has_threads: bool) {
        let before = self.size();
        let Memory::Growable(stack, most) = &mut self.memory else { return };
        let (bytes, more) = (dice.below(*most + 2 * page_bytes()), dice.below(*most) + 1);
        let done = match dice.below(8) {
            0 if has_threads => {
                let grower = stack.grower();
                thread::scope(|scope| {
                    scope.spawn(|| refused_or_done(grower.grow(more)));
                    stack.grow(bytes)
                })
            }
            0..=3 => stack.grow(bytes),
            4 => stack.grower().grow(bytes),
            // SAFETY: nothing on the stack is needed; the model forgets it.
            _ => unsafe { stack.shrink(bytes.min(before)) },
        };
        refused_or_done(done);
        self.pages.forget(0..self.pages.len() - self.size() / page_bytes());
    }
}

/// Checks that a resize was done, or refused for a reason that there may be.
fn refused_or_done(done: Result<(), StackError>) {
    made(done);
}

impl World {
    /// Makes a stack in a pool of its own, which is closed before the stack ends.
    fn orphan(&self, dice: &mut Dice) -> Option<Held> {
        let (linux, settings) = settings(dice, self.has_threads);
        let stacks = made(Stacks::open_with(linux.max_bytes(64 << 20), &settings))?;
        let memory = memory(&stacks, dice)?;
        Some(Held { is_orphan: true, ..Held::new(memory) })
    }

    /// Checks that all memory and addresses of dropped stacks are gone once the pool is cleared.
    fn check_cleared(&self, dice: &mut Dice) {
        self.stacks.clear();
        let (stats, busy) = (self.stacks.stats(), self.busy.lock().expect("no thread has panicked"));
        if self.has_threads {
            // The thread of the pool may have some in its hands.
            return assert!(stats.busy_areas >= busy.len() as u64 + OWN_AREAS, "{stats:?}");
        }
        assert_eq!(stats.busy_areas, busy.len() as u64 + OWN_AREAS, "{stats:?}");
        assert_eq!((stats.lazy_areas, stats.cached_areas), (0, 0), "{stats:?}");
        let mut dropped = self.dropped.lock().expect("no thread has panicked");
        for _ in 0..dropped.len().min(200) {
            let range = &dropped[dice.below(dropped.len())];
            let page = range.start + dice.below(range.len() / page_bytes()) * page_bytes();
            if !busy.iter().any(|busy| busy.contains(&page)) {
                assert!(peek(page).is_none(), "{page:#x} of a dropped stack can be read");
                assert!(!has_memory(page), "{page:#x} of a dropped stack has memory");
            }
        }
        dropped.clear();
    }
}

fn memory(stacks: &Stacks, dice: &mut Dice) -> Option<Memory> {
    let most = if dice.one_in(4) { 4 << 20 } else { 100_000 };
    let bytes = 1 + dice.below(most);
    let first = 1 + dice.below(bytes);
    let memory = match dice.below(9) {
        0..=3 => Memory::Plain(made(stacks.stack())?),
        4 => Memory::Plain(made(stacks.request().bytes(bytes).stack())?),
        5 => Memory::Plain(made(stacks.request().name("a stack of the test").bytes(bytes).stack())?),
        6 => Memory::Growable(made(stacks.request().bytes(first).growable(bytes))?, bytes),
        7 => Memory::Growable(made(stacks.request().name("it grows").bytes(first).growable(bytes))?, bytes),
        _ => Memory::Growable(made(stacks.request().bytes(0).growable(bytes))?, bytes),
    };
    Some(memory)
}

impl Life for World {
    type Owner = Held;

    fn make(&self, dice: &mut Dice) -> Option<Held> {
        let mut held = match dice.one_in(30) {
            true => self.orphan(dice)?,
            false => Held::new(memory(&self.stacks, dice)?),
        };
        held.check_traps();
        held.write_some(dice);
        Some(held)
    }

    fn check(&self, held: &Held) {
        held.pages.check();
    }

    fn change(&self, held: &mut Held, dice: &mut Dice) {
        held.resize(dice, self.process == std::process::id());
        held.pages.check();
        held.check_traps();
        held.write_some(dice);
    }

    fn end(&self, held: Held, _: &mut Dice) {
        if !held.is_orphan
            && let Ok(mut dropped) = self.dropped.try_lock()
            && dropped.len() < REMEMBERED
        {
            dropped.push(held.range());
        }
    }

    fn look_around(&self, dice: &mut Dice) {
        match dice.below(4) {
            0 => self.stacks.trim(),
            1 => self.stacks.clear(),
            _ => drop(self.stacks.clone().stats()),
        }
    }

    fn tell(&self, owners: &[Held]) {
        let own = owners.iter().filter(|held| !held.is_orphan).map(Held::range);
        self.busy.lock().expect("no thread has panicked").extend(own);
    }

    fn check_quiet(&self, dice: &mut Dice) {
        let handed_over = self.handed_over.lock().expect("no thread has panicked");
        handed_over.iter().for_each(|held| held.pages.check());
        self.tell(&handed_over);
        match dice.one_in(2) {
            true => self.stacks.trim(),
            false => self.check_cleared(dice),
        }
        self.busy.lock().expect("no thread has panicked").clear();
    }

    fn check_child(&self) {
        self.stacks.trim();
        self.stacks.clear();
    }

    fn handed_over(&self) -> Option<&Mutex<Vec<Held>>> {
        Some(&self.handed_over)
    }
}

fn settings(dice: &mut Dice, has_threads: bool) -> (LinuxOptions, StacksOptions) {
    let linux = LinuxOptions::new().max_bytes(1 << (28 + dice.below(10))).drain_thread(has_threads);
    let mut settings = StacksOptions::new();
    settings = settings.stack_bytes(dice.pick(&[4096, 16 << 10, 64 << 10, 200_000, 1 << 20]));
    if dice.one_in(2) {
        settings = settings.keep_bytes(dice.pick(&[0, 1, 4096, 1 << 20]));
    }
    if dice.one_in(2) {
        settings = settings.warm_bytes(dice.pick(&[0, 4096, 1 << 20, 1 << 30]));
    }
    if dice.one_in(3) {
        settings = settings.align(4096 << dice.below(10));
    }
    if dice.one_in(3) {
        settings = settings.name("a pool of the test");
    }
    (linux, settings)
}

/// Runs a world of stacks. Returns how many steps its threads made; 0 for settings that are
/// refused.
pub(crate) fn run(dice: &mut Dice, time: Duration, forks: Forks) -> u64 {
    let has_threads = dice.one_in(3);
    let (linux, settings) = settings(dice, has_threads);
    println!("  {linux:?}, {settings:?}");
    let Some(stacks) = made(Stacks::open_with(linux, &settings)) else { return 0 };
    let world = World {
        stacks,
        has_threads,
        process: std::process::id(),
        handed_over: Mutex::default(),
        busy: Mutex::default(),
        dropped: Mutex::default(),
    };
    let steps = live(&world, dice, time, forks);
    check_end(&world.stacks);
    steps
}

/// Checks that no stack is left. A thread of the pool may have some in its hands for a moment.
fn check_end(stacks: &Stacks) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        stacks.clear();
        let stats = stacks.stats();
        if stats.busy_areas == OWN_AREAS && stats.lazy_areas == 0 && stats.cached_areas == 0 {
            return;
        }
        assert!(Instant::now() < end, "stacks are left: {stats:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
