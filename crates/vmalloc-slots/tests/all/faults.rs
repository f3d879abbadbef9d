//! Every step that an operation of a pool takes is made to fail, one after the other: pages,
//! translations, flushes, discards, the heap. Nothing is lost by it.

use std::collections::HashSet;
use std::sync::Arc;
use vmalloc::{AreaError, PageRange, Space, SpaceOptions};
use vmalloc_sim::Due;
use vmalloc_sim::heap::short_of;
use vmalloc_sim::{Options as Machine, Point, Sim};
use vmalloc_slots::{Dirty, Slot, SlotError, Slots, SlotsError, SlotsOptions};

const PAGE: usize = 4096;

type Pool = Slots<Arc<Space<Sim>>>;

/// A pool, and the slots that are out. Slots go before the pool.
struct State {
    busy: Vec<Slot<Arc<Pool>>>,
    pool: Arc<Pool>,
}

impl State {
    /// Writes to the first `pages` pages of a slot.
    fn write(&self, nth: usize, pages: usize) {
        let (first, sim) = ((self.busy[nth].addr() / PAGE) as u64, self.pool.space().platform());
        (first..first + pages as u64).for_each(|page| sim.write(0, page, 7).expect("it is committed"));
    }

    /// Checks that a slot reads as zero where it is committed.
    fn check(&self, slot: &Slot<Arc<Pool>>) {
        let (first, sim) = ((slot.addr() / PAGE) as u64, self.pool.space().platform());
        let pages = first..first + (slot.committed_bytes() / PAGE) as u64;
        pages.for_each(|page| assert_eq!(sim.read(0, page), Ok(0)));
    }

    fn alloc(&mut self) -> Result<(), SlotError> {
        let slot = Slot::new(self.pool.clone())?;
        self.check(&slot);
        self.busy.push(slot);
        Ok(())
    }

    /// Allocates slots again until as many are out.
    fn refill(&mut self, count: usize) -> Result<(), SlotError> {
        while self.busy.len() < count {
            self.alloc()?;
        }
        Ok(())
    }
}

/// Returns a pool with `busy` slots out, written from start to end.
fn setup(options: SlotsOptions, busy: usize) -> (Arc<Space<Sim>>, State) {
    let machine = Machine::new(PageRange::new(0x100, 0x900).unwrap()).build();
    let space = Arc::new(Space::new(machine, SpaceOptions::default()).unwrap());
    let pool = Arc::new(Slots::new(space.clone(), options).unwrap());
    let mut state = State { busy: Vec::with_capacity(40), pool };
    state.refill(busy).unwrap();
    for nth in 0..busy {
        state.busy[nth].grow(12 * PAGE).unwrap();
        state.write(nth, 12);
    }
    (space, state)
}

fn options() -> SlotsOptions {
    SlotsOptions::new(20 * PAGE).head_bytes(4 * PAGE).max_slots(24).keep_bytes(2 * PAGE)
}

/// Has an operation fail at each step, on a pool of which `busy` slots are out.
fn walk<E: std::fmt::Debug>(
    name: &'static str,
    options: SlotsOptions,
    busy: usize,
    operation: impl Fn(&mut State) -> Result<(), E>,
    points: &[Point],
) {
    let release = |_: &Space<Sim>, state: State| {
        let stats = state.pool.stats();
        assert_eq!(stats.reserved, stats.free + stats.waiting + state.busy.len(), "{stats:?}");
    };
    let operation = |_: &Space<Sim>, state: &mut State| operation(state);
    vmalloc_sim::harness::walk(name, points, || setup(options, busy), operation, release);
}

#[test]
fn alloc() {
    walk("alloc", options(), 0, State::alloc, &[Point::Map, Point::Frame]);
    walk("alloc of a second", options(), 1, State::alloc, &[Point::Map]);
}

#[test]
fn grow() {
    let grow = |state: &mut State| -> Result<(), SlotError> {
        state.busy[0].grow(18 * PAGE)?;
        state.busy[1].grow(20 * PAGE)
    };
    walk("grow", options(), 2, grow, &[Point::Map, Point::Frame]);
}

#[test]
fn reset() {
    let reset = |state: &mut State| -> Result<(), AreaError> {
        // SAFETY: 12 pages are committed, and written.
        unsafe { state.busy[0].reset(Dirty::Unknown) }?;
        state.check(&state.busy[0]);
        Ok(())
    };
    walk("reset", options(), 1, reset, &[Point::Discard]);
}

/// Frees 13 slots, two batches and one: a refused batch is no error, and the slots read as zero
/// when they come again.
fn free_all(state: &mut State) -> Result<(), SlotError> {
    // SAFETY: all that was written is told.
    state.busy.drain(..).for_each(|slot| unsafe { slot.free(Dirty::Below(12 * PAGE)) });
    state.refill(13)
}

/// Frees them, and has drains take their memory. Refused slots are tried again by the next drain.
fn decay_all(state: &mut State) -> Result<(), SlotError> {
    state.busy.clear();
    for _ in 0..4 {
        let _ = state.pool.space().drain();
    }
    state.refill(13)
}

#[test]
fn free() {
    let points = [Point::Discard, Point::Unmap, Point::Flush];
    walk("free", options(), 13, free_all, &points);
    walk("free, all kept", options().keep_bytes(64 * PAGE), 13, free_all, &points[1..]);
    walk("free, then decay", options().keep_bytes(64 * PAGE), 13, decay_all, &points);
    walk("free of the last", options().max_slots(13), 13, free_all, &points);
}

#[test]
fn flush_and_trim() {
    let flush = |state: &mut State| -> Result<(), AreaError> {
        state.busy.clear();
        state.pool.flush()
    };
    walk("flush", options().max_slots(40), 5, flush, &[Point::Discard, Point::Unmap, Point::Flush]);
    let trim = |state: &mut State| -> Result<(), AreaError> {
        state.busy.clear();
        state.pool.trim(1)
    };
    walk("trim", options(), 5, trim, &[Point::Discard]);
}

/// Neither the heap nor the machine helps: the space can't remember the addresses of a slot until
/// they are flushed. The slot stays the pool's, with its addresses.
#[test]
fn slots_that_can_t_be_given_back_wait_with_their_addresses() {
    const SLOTS: usize = 200;
    let machine = Machine::new(PageRange::new(0x100, 0x900).unwrap()).build();
    let space = Arc::new(Space::new(machine, SpaceOptions::default().unmap_on_free()).unwrap());
    let pool = Arc::new(Slots::new(space.clone(), SlotsOptions::new(4 * PAGE).head_bytes(PAGE)).unwrap());
    let mut state = State { busy: Vec::new(), pool };
    state.refill(SLOTS).unwrap();
    let addrs: HashSet<_> = state.busy.iter().map(Slot::addr).collect();
    state.busy.clear();
    state.pool.flush().unwrap();
    space.platform().fail_from(Point::Unmap, 1);
    let (trimmed, _) = short_of(Due::From(1), || state.pool.trim(0));
    trimmed.unwrap_err();
    let stats = state.pool.stats();
    assert!(stats.waiting > 0 && stats.waiting == stats.reserved && stats.free == 0, "{stats:?}");
    space.platform().heal();
    state.pool.flush().unwrap();
    state.refill(stats.waiting).unwrap();
    assert!(state.busy.iter().all(|slot| addrs.contains(&slot.addr())));
    drop(state);
    space.purge().unwrap();
    assert_eq!(space.platform().check_end(), []);
}

/// A reset that the machine refuses leaves pages to be discarded, also beyond the head. These are
/// decommitted when the slot is freed, and count once.
#[test]
fn a_freed_slot_has_no_more_to_lose_than_its_pages() {
    let (space, mut state) = setup(options(), 1);
    space.platform().fail_nth(Point::Discard, 1);
    // SAFETY: 12 pages are committed, and written.
    unsafe { state.busy[0].reset(Dirty::Unknown) }.unwrap_err();
    state.busy.clear();
    let stats = state.pool.stats();
    assert!(stats.waiting == 1 && stats.waiting_bytes <= 12 * PAGE as u64, "{stats:?}");
    state.pool.flush().unwrap();
    state.refill(1).unwrap();
}

/// A reset keeps memory beyond the head, which the slot loses when it is freed. Where the pool
/// drops the memory of a free slot later, it drops what is committed still, and nothing beyond.
#[test]
fn memory_that_a_reset_kept_beyond_the_head_is_not_dropped_twice() {
    let (space, mut state) = setup(options().keep_bytes(64 * PAGE), 1);
    // SAFETY: 12 pages are committed, and written. The reset clears all of them.
    unsafe {
        state.busy[0].reset(Dirty::Below(12 * PAGE)).unwrap();
        state.busy.pop().unwrap().free(Dirty::Below(0));
    }
    assert_eq!(state.pool.stats().kept_bytes, 4 * PAGE as u64, "the head");
    state.pool.flush().unwrap();
    (0..4).for_each(|_| assert!(space.drain().is_ok()));
    let stats = state.pool.stats();
    assert_eq!((stats.free, stats.waiting, stats.kept_bytes), (1, 0, 0), "{stats:?}");
    state.refill(1).unwrap();
    drop(state);
    space.purge().unwrap();
    assert_eq!(space.platform().check_end(), []);
}

/// The simulated machine puts memory behind pages when they are committed. It counts for the bounds
/// as if the owner of the slot had written there.
#[test]
fn memory_that_the_machine_puts_behind_a_head_is_bounded() {
    for (keep, freed, waiting_pages) in [(0, (0, 1), 4), (64 * PAGE, (1, 0), 0)] {
        let (_, mut state) = setup(options().keep_bytes(keep), 0);
        state.refill(1).unwrap();
        // SAFETY: nothing was written.
        unsafe { state.busy.pop().unwrap().free(Dirty::Below(0)) };
        let stats = state.pool.stats();
        assert_eq!((stats.free, stats.waiting), freed, "{stats:?}");
        assert_eq!(stats.waiting_bytes, waiting_pages * PAGE as u64);
        assert_eq!(stats.kept_bytes, (4 - waiting_pages) * PAGE as u64);
    }
}

/// Addresses run out long before the most slots.
#[test]
fn a_span_that_is_too_small_lends_the_same_slots_again() {
    let machine = Machine::new(PageRange::new(0x100, 0x200).unwrap()).build();
    let space = Arc::new(Space::new(machine, SpaceOptions::default()).unwrap());
    let pool = Arc::new(Slots::new(space, SlotsOptions::new(40 * PAGE).keep_bytes(0)).unwrap());
    let mut state = State { busy: Vec::new(), pool };
    for round in 0..50 {
        while state.alloc().is_ok() {
            assert!(
                round == 0 || state.pool.stats().reserved == 6,
                "slots were given back and reserved again"
            );
            state.write(state.busy.len() - 1, 1);
        }
        assert_eq!(state.busy.len(), 6);
        state.busy.clear();
    }
}

/// Without memory for its tables there is no pool, and nothing is lost. The `Arc` behind them is
/// the heap's own matter: without memory for it the program ends.
#[test]
fn pools_without_memory_are_errors() {
    let open = |shortage| {
        let machine = Machine::new(PageRange::new(0x100, 0x900).unwrap()).build();
        let space = Space::new(machine, SpaceOptions::default()).unwrap();
        short_of(shortage, || Slots::new(&space, options()).map(drop))
    };
    let (made, demand) = open(Due::Nth(u64::MAX));
    made.unwrap();
    let arc = demand.asked - 1;
    for nth in (1..=demand.asked).filter(|nth| *nth != arc) {
        assert_eq!(open(Due::Nth(nth)).0, Err(SlotsError::Metadata), "request {nth}");
    }
    assert!(arc > 6, "{arc} tables");
}
