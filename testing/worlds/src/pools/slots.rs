//! The world of slots: a pool with random options on a space with random options.

use crate::dice::Dice;
use crate::life::{Forks, Life, live};
use crate::look::resident;
use crate::owners::memory::Pages;
use crate::owners::{made, sure};
use crate::world::{Sp, check_space_of_child, check_whole, open_space};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vmalloc::ReadNofault;
use vmalloc_linux::page_bytes;
use vmalloc_slots::{BeyondHead, Dirty, Slot, SlotError, Slots, SlotsOptions};

type Pool = Arc<Slots<Sp>>;

/// The most bytes to which a slot is grown, so that a look at all of it takes no time.
const MOST_COMMITTED: usize = 24 << 20;

/// A pool, and what its owners share.
struct World {
    pool: Pool,
    handed_over: Mutex<Vec<Held>>,
    /// The addresses of all slots in use, as a quiet moment begins.
    busy: Mutex<BTreeSet<usize>>,
}

/// A slot, and the numbers of committed pages that were written. A look at another may give it a
/// page of zeros.
struct Held {
    slot: Slot<Pool>,
    pages: Pages,
}

/// The writes that an owner tells of.
enum Told {
    Unknown,
    Below(usize),
    Ranges(Vec<Range<usize>>),
}

impl Told {
    fn dirty(&self) -> Dirty<'_> {
        match self {
            Self::Unknown => Dirty::Unknown,
            Self::Below(bytes) => Dirty::Below(*bytes),
            Self::Ranges(ranges) => Dirty::Ranges(ranges),
        }
    }
}

impl Held {
    /// Checks that the bytes from this page on are zeros: of all, or of some.
    fn check_zeros(&self, from: usize, dice: &mut Dice) {
        let pages = self.pages.len() - from;
        match pages {
            0 => {}
            ..300 if !dice.one_in(3) => self.pages.check_zeros(from * page_bytes()),
            _ => (0..20).for_each(|_| self.pages.check_page(from + dice.below(pages), 0)),
        }
    }

    /// Checks that everything around what is committed traps.
    fn check_traps(&self) {
        let options = self.slot.slots().options();
        let (addr, end) = (self.slot.addr(), self.slot.addr() + self.slot.len());
        let mut traps = Vec::new();
        if options.guard_before_bytes > 0 {
            traps.extend([addr - 1, addr - options.guard_before_bytes]);
        }
        if options.guard_after_bytes > 0 {
            traps.extend([end, end + options.guard_after_bytes - 1]);
        }
        if self.slot.committed_bytes() < self.slot.len() {
            traps.extend([addr + self.slot.committed_bytes(), end - 1]);
        }
        let platform = self.slot.slots().space().platform();
        for trap in traps {
            assert_eq!(platform.read_nofault(trap, &mut [0]), 0, "{trap:#x} of {:?} can be read", self.slot);
        }
    }

    fn grow(&mut self, dice: &mut Dice) {
        let (before, size) = (self.slot.committed_bytes(), self.slot.len());
        let bytes = match dice.below(8) {
            0 => size + 1 + dice.below(page_bytes()),
            1 => size.min(MOST_COMMITTED),
            _ => dice.below(size.min(before + (1 << 20)) + 1),
        };
        match self.slot.grow(bytes) {
            Ok(()) => {
                assert_eq!(self.slot.committed_bytes(), before.max(bytes.next_multiple_of(page_bytes())));
                self.pages.resize(self.slot.committed_bytes());
                self.check_zeros(before / page_bytes(), dice);
            }
            Err(SlotError::Beyond { asked, slot }) => assert!(asked == bytes && bytes > slot && slot == size),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        self.check_traps();
    }

    /// Returns what is dirty, told in a random way.
    fn dirty(&self, dice: &mut Dice) -> Told {
        let mut written = (0..self.pages.len()).filter(|page| self.pages.is_known(*page));
        let words = |page: usize| {
            [0, page_bytes() - 8].map(|at| page * page_bytes() + at..page * page_bytes() + at + 8)
        };
        match dice.below(4) {
            0 => Told::Unknown,
            1 => Told::Below(written.next_back().map_or(0, |page| (page + 1) * page_bytes())),
            2 => Told::Ranges(written.rev().flat_map(words).collect()),
            _ => Told::Ranges(written.map(|page| page * page_bytes()..(page + 1) * page_bytes()).collect()),
        }
    }

    fn reset(&mut self, dice: &mut Dice) {
        let told = self.dirty(dice);
        // SAFETY: nothing else uses the slot, and all that was written is told.
        let reset = unsafe { self.slot.reset(told.dirty()) };
        sure(reset, "a reset");
        self.pages.forget(0..self.pages.len());
        self.check_zeros(0, dice);
        self.check_traps();
    }
}

impl World {
    /// Returns the pages with memory of each free slot; `None` where the kernel does not tell.
    fn resident_of_free(&self) -> Option<Vec<u64>> {
        let busy = self.busy.lock().expect("no thread has panicked");
        let areas =
            self.pool.space().areas().map(|area| area.addr..area.addr + area.pages as usize * page_bytes());
        let free = areas.filter(|area| busy.range(area.clone()).next().is_none());
        free.map(resident).collect()
    }

    /// Checks that free slots keep no more memory than the figures tell, nor than is allowed.
    fn check_kept(&self) {
        let (stats, options) = (self.pool.stats(), self.pool.options());
        assert!(stats.kept_bytes <= options.resident_bytes as u64, "{stats:?} of {options:?}");
        let Some(resident) = self.resident_of_free() else { return };
        let most = resident.iter().max().copied().unwrap_or(0);
        assert!(
            most <= (options.keep_bytes / page_bytes()) as u64,
            "a free slot has {most} pages: {options:?}"
        );
        let all: u64 = resident.iter().sum();
        assert!(
            all * page_bytes() as u64 <= stats.kept_bytes,
            "free slots have {all} pages: {stats:?}, {options:?}"
        );
    }
}

impl Life for World {
    type Owner = Held;

    fn make(&self, dice: &mut Dice) -> Option<Held> {
        let slot = match dice.below(3) {
            0 => Slot::new(Arc::clone(&self.pool)),
            _ => Slot::new_for(Arc::clone(&self.pool), dice.below(5) as u64),
        };
        if let Err(SlotError::Exhausted { slots }) = &slot {
            assert_eq!(*slots, self.pool.options().max_slots);
        }
        let slot = made(slot)?;
        let pages = Pages::new(slot.addr(), slot.committed_bytes(), false);
        let mut held = Held { slot, pages };
        assert!(held.slot.committed_bytes() >= self.pool.options().head_bytes);
        held.check_zeros(0, dice);
        held.check_traps();
        held.pages.write_some(dice);
        Some(held)
    }

    fn check(&self, held: &Held) {
        held.pages.check();
    }

    fn change(&self, held: &mut Held, dice: &mut Dice) {
        match dice.below(4) {
            0 => held.reset(dice),
            1 | 2 => held.grow(dice),
            _ => {}
        }
        held.pages.write_some(dice);
    }

    fn end(&self, held: Held, dice: &mut Dice) {
        if dice.one_in(3) {
            return drop(held.slot);
        }
        let told = held.dirty(dice);
        // SAFETY: nothing uses the slot any more, and all that was written is told.
        unsafe { held.slot.free(told.dirty()) };
    }

    fn look_around(&self, dice: &mut Dice) {
        match dice.below(6) {
            0 => sure(self.pool.flush(), "a flush of the pool"),
            1 => sure(self.pool.trim(dice.below(20)), "a trim of the pool"),
            2 => sure(self.pool.space().purge(), "a purge"),
            3 => sure(self.pool.space().decay(), "a decay"),
            _ => assert!(self.pool.stats().reserved <= self.pool.options().max_slots),
        }
    }

    fn tell(&self, owners: &[Held]) {
        let mut busy = self.busy.lock().expect("no thread has panicked");
        busy.extend(owners.iter().map(|held| held.slot.addr()));
    }

    fn check_quiet(&self, dice: &mut Dice) {
        let handed_over = self.handed_over.lock().expect("no thread has panicked");
        self.tell(&handed_over);
        sure(self.pool.flush(), "a flush of the pool");
        let (stats, busy) = (self.pool.stats(), self.busy.lock().expect("no thread has panicked").len());
        assert_eq!((stats.waiting, stats.waiting_bytes), (0, 0), "{stats:?}");
        assert_eq!(stats.reserved, stats.free + busy, "{stats:?}");
        self.check_kept();
        if dice.one_in(4) {
            sure(self.pool.trim(0), "a trim of the pool");
            assert_eq!(self.pool.stats().free, 0, "slots are free after a trim");
        }
        sure(self.pool.space().verify(), "the invariants");
        self.busy.lock().expect("no thread has panicked").clear();
    }

    fn check_child(&self) {
        check_space_of_child(self.pool.space());
    }

    fn handed_over(&self) -> Option<&Mutex<Vec<Held>>> {
        Some(&self.handed_over)
    }
}

fn options(dice: &mut Dice) -> SlotsOptions {
    let slot = dice.pick(&[1, 64 << 10, 1 << 20, (4 << 20) - 5, 64 << 20, 4 << 30]);
    let mut options = SlotsOptions::new(slot).max_slots(dice.pick(&[1, 8, 28, 500]));
    if dice.one_in(2) {
        options = options.head_bytes(dice.pick(&[0, 1, 20_000, 720 << 10, 3 << 20]).min(slot));
    }
    if dice.one_in(2) {
        options = options.guard_before_bytes(dice.pick(&[0, 1, 100_000, 2 << 20]));
    }
    if dice.one_in(2) {
        options = options.guard_after_bytes(dice.pick(&[0, 1, 100_000, 2 << 20]));
    }
    if dice.one_in(2) {
        options = options.keep_bytes(dice.pick(&[0, 4096, 30_000, 8 << 20]));
    }
    if dice.one_in(2) {
        options = options.resident_bytes(dice.pick(&[0, 4096, 1 << 20, 1 << 30]));
    }
    if dice.one_in(3) {
        options = options.beyond_head(BeyondHead::Commit);
    }
    options
}

/// Runs a world of slots. Returns how many steps its threads made; 0 for options that the kernel
/// or the space refuses.
pub(crate) fn run(dice: &mut Dice, time: Duration, forks: Forks) -> u64 {
    let Some((space, _)) = open_space(dice) else { return 0 };
    let options = options(dice);
    println!("  {options:?}");
    let Some(pool) = made(Slots::new(Arc::clone(&space), options)) else { return 0 };
    let world = World { pool: Arc::new(pool), handed_over: Mutex::default(), busy: Mutex::default() };
    let steps = live(&world, dice, time, forks);
    assert_eq!(Arc::strong_count(&world.pool), 1, "a slot has kept its pool");
    drop(world);
    check_whole(&space);
    steps
}
