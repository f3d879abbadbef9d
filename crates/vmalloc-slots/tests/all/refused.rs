//! Slots with a page that the platform refuses to unmap: they wait, and keep no other slot back.

use std::ops::Range;
use std::sync::Arc;
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::{Options as Machine, Point, Sim};
use vmalloc_slots::{Slot, Slots, SlotsOptions};

const PAGE: usize = 4096;

type Pool = Slots<Arc<Space<Sim>>>;

/// Returns a pool of up to `most` slots with a head of one page. A quarter of them is a batch, if
/// that is four or more.
fn pool(most: usize) -> Arc<Pool> {
    let machine = Machine::new(PageRange::new(0x100, 0x10000).unwrap()).frames(1 << 16).build();
    let space = Arc::new(Space::new(machine, SpaceOptions::default()).unwrap());
    let options = SlotsOptions::new(8 * PAGE).head_bytes(PAGE).max_slots(most);
    Arc::new(Slots::new(space, options).unwrap())
}

/// Allocates slots that have something to lose when they are freed.
fn alloc(pool: &Arc<Pool>, count: usize) -> Vec<Slot<Arc<Pool>>> {
    let grown = |_| {
        let mut slot = Slot::new(pool.clone()).unwrap();
        slot.grow(4 * PAGE).unwrap();
        slot
    };
    (0..count).map(grown).collect()
}

/// Refuses to unmap a page of each of these slots, beyond its head.
fn refuse(pool: &Pool, slots: &[Slot<Arc<Pool>>]) {
    for slot in slots {
        let page = (slot.addr() / PAGE) as u64 + 2;
        pool.space().platform().refuse(Point::Unmap, PageRange::from_len(page, 1).unwrap());
    }
}

/// Returns how many slots are free, and how many wait.
fn figures(pool: &Pool) -> (usize, usize) {
    (pool.stats().free, pool.stats().waiting)
}

/// Checks that everything is in order once nothing is refused any more.
fn relent(pool: Arc<Pool>, slots: usize) {
    let space = pool.space().clone();
    space.platform().relent();
    pool.flush().unwrap();
    assert_eq!(figures(&pool), (slots, 0));
    drop(pool);
    space.purge().unwrap();
    assert_eq!(space.platform().check_end(), []);
}

#[test]
fn as_many_refused_slots_as_a_batch_has_keep_no_other_waiting() {
    let batches = [(4, 0..1), (4, 5..6), (4, 0..4), (4, 4..16), (50, 0..50), (50, 10..90), (64, 0..64)];
    for (batch, refused) in batches {
        let most = 4 * batch;
        let pool = pool(most);
        let mut all = alloc(&pool, most);
        refuse(&pool, &all[refused.clone()]);
        all.drain(..).for_each(drop);
        let waiting = pool.stats().waiting;
        assert!(waiting <= 2 * (refused.len() + batch), "{waiting} wait, {batch} in a batch");
        pool.flush().unwrap_err();
        assert_eq!(figures(&pool), (most - refused.len(), refused.len()), "{batch} in a batch");
        relent(pool, most);
    }
}

#[test]
fn a_flush_goes_on_behind_a_batch_that_is_refused() {
    for slots in 6..16 {
        let pool = pool(slots);
        let all = alloc(&pool, slots);
        let first = (all[0].addr() / PAGE) as u64 + 2;
        refuse(&pool, &all);
        drop(all);
        assert_eq!(figures(&pool), (0, slots));
        pool.space().platform().relent();
        pool.space().platform().refuse(Point::Unmap, PageRange::from_len(first, 1).unwrap());
        pool.flush().unwrap_err();
        assert_eq!(figures(&pool), (slots - 1, 1));
        relent(pool, slots);
    }
}

#[test]
fn a_trim_gives_free_slots_back_though_others_are_refused() {
    for keep in [0, 3] {
        let pool = pool(20);
        let all = alloc(&pool, 20);
        refuse(&pool, &all[7..9]);
        drop(all);
        pool.trim(keep).unwrap_err();
        assert_eq!((pool.stats().reserved, figures(&pool)), (keep + 2, (keep, 2)));
        relent(pool, keep + 2);
    }
}

#[test]
fn an_allocation_in_need_passes_over_refused_slots() {
    let pool = pool(12);
    let mut all: Vec<_> = alloc(&pool, 12).into_iter().map(Some).collect();
    let drop_some =
        |all: &mut Vec<_>, which: Range<usize>| all[which].iter_mut().for_each(|slot| *slot = None);
    for at in [0, 8] {
        let doomed: Vec<_> = all[at..at + 4].iter_mut().filter_map(Option::take).collect();
        refuse(&pool, &doomed);
    }
    drop_some(&mut all, 4..7);
    assert_eq!(figures(&pool), (0, 11));
    // A batch begins behind the last that was tried, at one of the refused slots or at another.
    for _ in 0..2 {
        pool.flush().unwrap_err();
        assert_eq!(figures(&pool), (3, 8));
        let taken = alloc(&pool, 3);
        Slot::new(pool.clone()).unwrap_err();
        drop(taken);
        let taken = alloc(&pool, 3);
        Slot::new(pool.clone()).unwrap_err();
        drop(taken);
    }
    drop(all);
    relent(pool, 12);
}

#[test]
fn refused_slots_do_not_make_others_add_up() {
    let (batch, refused) = (4, 3);
    let pool = pool(4 * batch);
    let mut doomed = alloc(&pool, refused);
    refuse(&pool, &doomed);
    doomed.clear();
    for round in 0..500 {
        drop(alloc(&pool, 8));
        let waiting = pool.stats().waiting;
        assert!(waiting <= 2 * (refused + batch), "{waiting} wait in round {round}");
    }
    let slots = pool.stats().reserved;
    relent(pool, slots);
}

#[test]
fn refused_slots_fill_no_batch() {
    let pool = pool(16);
    let mut doomed = alloc(&pool, 3);
    let mut all = alloc(&pool, 9);
    refuse(&pool, &doomed);
    doomed.clear();
    // With a fourth they are a batch, which is refused.
    all.truncate(8);
    assert_eq!(figures(&pool), (1, 3));
    // So the next one is due when four more have come in.
    for waiting in [4, 5, 6] {
        all.pop();
        assert_eq!(figures(&pool), (1, waiting));
    }
    all.pop();
    assert_eq!(figures(&pool), (5, 3));
    drop(all);
    relent(pool, 12);
}
