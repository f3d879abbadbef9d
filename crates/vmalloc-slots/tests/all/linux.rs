//! Slots of Linux memory: what traps, what is kept, and how many calls it takes.

use crate::common::{drained_pool, fill, is_zero, page_bytes, pages_in, peek, pool, resident, spaces};
use std::sync::Arc;
use vmalloc::{Request, Reservation};
use vmalloc_slots::{BeyondHead, Dirty, Slot, SlotError, Slots, SlotsOptions};

const GIB: usize = 1 << 30;

#[test]
fn a_slot_grows_in_place_to_its_size_and_no_further() {
    for space in spaces() {
        let pool = Slots::new(space.clone(), SlotsOptions::new(64 << 20)).unwrap();
        let mut slot = pool.alloc().unwrap();
        let addr = slot.addr();
        fill(&mut slot, 64 << 10);
        for bytes in [100_000, 1, 9 << 20, 64 << 20] {
            slot.grow(bytes).unwrap();
            let (base, committed) = (slot.addr(), slot.committed_bytes());
            assert_eq!((base, peek(&space, addr + bytes.max(100_000) - 1)), (addr, Some(0)));
            assert_eq!(peek(&space, addr + committed), None);
        }
        let beyond = SlotError::Beyond { asked: (64 << 20) + 1, slot: 64 << 20 };
        assert_eq!(slot.grow((64 << 20) + 1), Err(beyond));
        assert_eq!((peek(&space, addr), peek(&space, addr + page_bytes() + 1)), (Some(0xa5), Some(0xa5)));
        // It traps again beyond its head once it was reset.
        drop(slot);
        pool.flush().unwrap();
        let slot = pool.alloc().unwrap();
        assert_eq!((slot.addr(), slot.committed_bytes()), (addr, 64 << 10));
        assert!(is_zero(&slot));
        assert_eq!([64 << 10, 9 << 20, (64 << 20) - 1].map(|at| peek(&space, addr + at)), [None; 3]);
    }
}

#[test]
fn a_little_is_cleared_at_once_and_keeps_its_memory() {
    let pool = pool(SlotsOptions::new(4 * GIB));
    let mut slot = pool.alloc().unwrap();
    let addr = slot.addr();
    fill(&mut slot, 64 << 10);
    // SAFETY: as written.
    unsafe { slot.free(Dirty::Below(64 << 10)) };
    let stats = pool.stats();
    assert_eq!((stats.free, stats.waiting, stats.kept_bytes), (1, 0, 64 << 10));
    let slot = pool.alloc().unwrap();
    assert_eq!((slot.addr(), resident(&slot), pool.stats().kept_bytes), (addr, pages_in(64 << 10), 0));
    assert!(is_zero(&slot));
    assert_eq!(pool.stats().batches, 0);
}

/// 64 pages that were written somewhere in 64 MiB are found and cleared; nothing else gets memory.
#[test]
fn scattered_pages_are_found_where_the_extent_is_not_known() {
    let pool = pool(SlotsOptions::new(64 << 20).head_bytes(64 << 20).keep_bytes(16 << 20));
    for round in 0..3 {
        let slot = pool.alloc().unwrap();
        assert!(resident(&slot) <= 64 * round);
        for page in 0..64 {
            let offset = (page * 61 + round as usize) * page_bytes();
            // SAFETY: the slot is this test's, and committed.
            unsafe {
                assert_eq!(slot.as_ptr().add(offset).read(), 0);
                slot.as_ptr().add(offset).write(9);
            }
        }
        assert_eq!(resident(&slot), 64 * (round + 1));
        drop(slot);
        assert_eq!(pool.stats().kept_bytes, 64 * (round + 1) * page_bytes() as u64);
    }
    assert!(is_zero(&pool.alloc().unwrap()));
}

#[test]
fn much_waits_for_a_batch_of_64() {
    let pool = pool(SlotsOptions::new(GIB).head_bytes(1 << 20).keep_bytes(64 << 10));
    let all: Vec<_> = (0..130).map(|_| pool.alloc().unwrap()).collect();
    for (freed, mut slot) in (1..).zip(all) {
        fill(&mut slot, 1 << 20);
        // SAFETY: as written.
        unsafe { slot.free(Dirty::Below(1 << 20)) };
        let stats = pool.stats();
        // Its pages too many, of 960 KiB, count, so the bytes are due as well: every 70 slots or so.
        assert_eq!((stats.reset_in_batches + stats.waiting as u64, stats.batches), (freed, freed / 64));
    }
    assert_eq!(pool.stats().waiting_bytes, 2 * (960 << 10));
    pool.flush().unwrap();
    assert_eq!((pool.stats().batches, pool.stats().waiting_bytes), (3, 0));
    for _ in 0..130 {
        let slot = pool.alloc().unwrap();
        assert!(resident(&slot) <= pages_in(64 << 10) && is_zero(&slot));
        // What a read has put there is no memory of the slot's.
        assert!(resident(&slot) <= pages_in(64 << 10));
        std::mem::forget(slot);
    }
}

#[test]
fn the_bytes_that_wait_are_bounded() {
    let pool = pool(SlotsOptions::new(GIB).head_bytes(8 << 20).keep_bytes(0).resident_bytes(20 << 20));
    let all: Vec<_> = (0..9).map(|_| pool.alloc().unwrap()).collect();
    for mut slot in all {
        fill(&mut slot, 8 << 20);
        drop(slot);
        assert!(pool.stats().waiting_bytes < 20 << 20);
    }
    assert_eq!((pool.stats().batches, pool.stats().waiting), (3, 0));
}

#[test]
fn memory_beyond_the_head_stays_if_asked() {
    let pool = pool(SlotsOptions::new(GIB).beyond_head(BeyondHead::Commit).keep_bytes(8 << 20));
    let mut slot = pool.alloc().unwrap();
    slot.grow(4 << 20).unwrap();
    fill(&mut slot, 4 << 20);
    drop(slot);
    let slot = pool.alloc().unwrap();
    assert_eq!(
        (slot.committed_bytes(), resident(&slot), pool.stats().batches),
        (4 << 20, pages_in(4 << 20), 0)
    );
    assert!(is_zero(&slot));
}

#[test]
fn a_slot_that_is_reset_reads_as_zero_and_stays_as_large() {
    for keep in [0, 1 << 20, 16 << 20] {
        let pool = pool(SlotsOptions::new(GIB).keep_bytes(keep));
        let mut slot = pool.alloc().unwrap();
        slot.grow(8 << 20).unwrap();
        for dirty in [Dirty::Unknown, Dirty::Below(3 << 20), Dirty::Ranges(&[0..1 << 20, 1 << 20..3 << 20])] {
            fill(&mut slot, 3 << 20);
            // SAFETY: as written.
            unsafe { slot.reset(dirty) }.unwrap();
            assert!(resident(&slot) <= pages_in(keep));
            assert!(slot.committed_bytes() == 8 << 20 && is_zero(&slot));
        }
    }
}

#[test]
fn the_same_user_gets_the_same_slot() {
    let pool = pool(SlotsOptions::new(GIB));
    let all: Vec<_> = (0..20).map(|user| pool.alloc_for(user).unwrap()).collect();
    let addrs: Vec<_> = all.iter().map(Slot::addr).collect();
    drop(all);
    for user in [3, 17, 0, 11] {
        let slot = pool.alloc_for(user).unwrap();
        assert_eq!(slot.addr(), addrs[user as usize]);
    }
    // Any other gets the one that was freed last.
    assert_eq!(pool.alloc_for(99).unwrap().addr(), addrs[11]);
    assert_eq!(pool.alloc().unwrap().addr(), addrs[11]);
}

/// Returns how many areas of a space are busy.
fn busy(space: &vmalloc::Space<vmalloc_linux::Linux>) -> u64 {
    space.stats().busy_areas
}

#[test]
fn slots_that_are_not_needed_lose_their_memory_with_the_drains_of_the_space() {
    let pool = pool(SlotsOptions::new(GIB));
    let alloc = |count| (0..count).map(|_| pool.alloc().unwrap()).collect::<Vec<_>>();
    let use_some = |count| {
        let mut all = alloc(count);
        all.iter_mut().for_each(|slot| fill(slot, 64 << 10));
    };
    let kept_slots = || pool.stats().kept_bytes >> 16;
    use_some(60);
    pool.space().decay().unwrap();
    assert_eq!((kept_slots(), busy(pool.space())), (60, 60), "all are new");
    for _ in 0..4 {
        use_some(20);
        pool.space().decay().unwrap();
        assert_eq!((kept_slots(), pool.stats().free, pool.stats().waiting), (20, 60, 0));
    }
    while pool.space().drain().unwrap() == vmalloc::DrainStatus::More {}
    assert_eq!((pool.stats().kept_bytes, pool.stats().waiting_bytes, pool.stats().free), (0, 0, 60));
    assert!(alloc(60).iter().all(|slot| resident(slot) == 0 && is_zero(slot)));
}

#[test]
fn waiting_slots_are_reset_by_the_drains_of_the_space() {
    let pool = pool(SlotsOptions::new(GIB).keep_bytes(page_bytes()));
    let mut all: Vec<_> = (0..60).map(|_| pool.alloc().unwrap()).collect();
    all.iter_mut().for_each(|slot| fill(slot, 64 << 10));
    drop(all);
    assert_eq!(pool.stats().waiting, 60);
    pool.space().decay().unwrap();
    assert_eq!((pool.stats().waiting, pool.stats().waiting_bytes, pool.stats().free), (0, 0, 60));
}

/// A drain that resets the slots hides them from no allocation.
#[test]
fn drains_take_no_slot_from_a_program_that_needs_all() {
    let pool = pool(SlotsOptions::new(1 << 20).head_bytes(1 << 20).max_slots(3).keep_bytes(0));
    let playing = Arc::new(());
    std::thread::scope(|scope| {
        // It ends with the other, also in a panic.
        let (watched, own) = (Arc::downgrade(&playing), &pool);
        scope.spawn(move || {
            while watched.strong_count() > 0 {
                own.space().decay().unwrap();
            }
        });
        let _playing = playing;
        for round in 0..600 {
            let mut all: Vec<_> = (0..3).map(|_| pool.alloc().unwrap()).collect();
            all.iter_mut().for_each(|slot| fill(slot, 1 << 20));
            drop(all);
            std::thread::sleep(std::time::Duration::from_micros(round % 7 * 20));
            if round % 2 == 0 {
                pool.flush().unwrap();
                assert_eq!((pool.stats().waiting, pool.stats().waiting_bytes), (0, 0));
            }
        }
    });
}

#[test]
fn slots_beyond_the_warm_ones_go_back_to_the_space() {
    let pool = pool(SlotsOptions::new(1 << 20).head_bytes(page_bytes()));
    drop((0..1200).map(|_| pool.alloc().unwrap()).collect::<Vec<_>>());
    assert_eq!(pool.stats().free, 1200);
    while pool.space().drain().unwrap() == vmalloc::DrainStatus::More {}
    assert_eq!((pool.stats().free, pool.stats().reserved, busy(pool.space())), (1024, 1024, 1024));
}

#[test]
fn slots_give_way_where_the_space_is_short_of_addresses() {
    let pool = pool(SlotsOptions::new(GIB));
    drop((0..40).map(|_| pool.alloc().unwrap()).collect::<Vec<_>>());
    let most = pool.space().geometry().span.len() as usize * page_bytes();
    let large = Reservation::new(&**pool.space(), &Request::new(most - (32 << 20))).unwrap();
    assert_eq!(pool.stats().reserved, 0);
    assert!(pool.alloc().is_err());
    drop(large);
    assert!(is_zero(&pool.alloc().unwrap()));
}

#[test]
fn the_drain_thread_gives_memory_back_that_is_not_needed() {
    let pool = drained_pool(SlotsOptions::new(GIB).head_bytes(1 << 20));
    let mut slot = pool.alloc().unwrap();
    fill(&mut slot, 1 << 20);
    drop(slot);
    // However long that takes: a second, and more on a machine with other work.
    while pool.stats().kept_bytes > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(resident(&pool.alloc().unwrap()), 0);
}

#[test]
fn a_trim_leaves_as_many_slots_as_it_says() {
    let pool = pool(SlotsOptions::new(GIB));
    let all: Vec<_> = (0..60).map(|_| pool.alloc().unwrap()).collect();
    drop(all);
    pool.trim(3).unwrap();
    assert!(pool.stats().reserved <= 3 && busy(pool.space()) <= 3);
    let space = pool.space().clone();
    drop(pool);
    assert_eq!(busy(&space), 0);
}

#[test]
fn a_pool_is_exhausted_at_its_most_slots() {
    let pool = pool(SlotsOptions::new(GIB).max_slots(3).keep_bytes(0));
    let mut all: Vec<_> = (0..3).map(|_| pool.alloc().unwrap()).collect();
    assert_eq!(pool.alloc().unwrap_err(), SlotError::Exhausted { slots: 3 });
    fill(&mut all[1], page_bytes());
    let addr = all[1].addr();
    // It waits, and is reset because it is needed.
    drop(all.swap_remove(1));
    assert_eq!(pool.stats().waiting, 1);
    let slot = pool.alloc().unwrap();
    assert_eq!((slot.addr(), resident(&slot)), (addr, 0));
}

/// Without guards of their own slots have the space's, so that none ends where another begins.
#[test]
fn slots_without_guards_of_their_own_do_not_touch() {
    let space = spaces().remove(0);
    let bare = SlotsOptions::new(4 * page_bytes()).guard_before_bytes(0).guard_after_bytes(0);
    let pool = Slots::new(space.clone(), bare).unwrap();
    let slots: Vec<_> = (0..8).map(|_| pool.alloc().unwrap()).collect();
    for slot in &slots {
        assert_eq!(
            [4 * page_bytes() - 1, 4 * page_bytes()].map(|at| peek(&space, slot.addr() + at)),
            [Some(0), None]
        );
    }
}

#[test]
fn as_many_slots_can_be_had_as_the_span_has_room_for() {
    let space = spaces().remove(0);
    // 64 GiB each: as many as the span has room for.
    let pool = Slots::new(space.clone(), SlotsOptions::new(1 << 36)).unwrap();
    let mut all = Vec::new();
    let error = loop {
        match pool.alloc() {
            Ok(slot) => all.push(slot),
            Err(error) => break error,
        }
    };
    // The span is smaller where other tests have taken much of the process's addresses.
    let most = space.platform().reserved_bytes() >> 36;
    let is_full = all.len() + 1 >= most && matches!(error, SlotError::Area(_));
    assert!(is_full, "{} slots of {most}, {error}", all.len());
    assert!(all.iter().all(|slot| slot.addr().is_multiple_of(8 << 20)), "no two share a page table");
    all.truncate(all.len() / 2);
    assert!((0..20).all(|_| pool.alloc().is_ok()));
}

#[test]
fn a_slot_that_one_cpu_freed_serves_another_that_finds_none() {
    for space in spaces() {
        let pool = Slots::new(space, SlotsOptions::new(1 << 20).max_slots(3)).unwrap();
        let on_cpu = |cpu: usize, slots: usize| {
            std::thread::scope(|scope| {
                let alone = scope.spawn(|| {
                    let mut set = rustix::thread::CpuSet::new();
                    set.set(cpu);
                    // Where there is one CPU, both threads run on that.
                    let _ = rustix::thread::sched_setaffinity(None, &set);
                    let all: Vec<_> = (0..slots).map(|_| pool.alloc().unwrap()).collect();
                    assert!(all.iter().all(is_zero));
                    all.into_iter().for_each(|mut slot| fill(&mut slot, page_bytes()));
                });
                alone.join().unwrap();
            });
        };
        for round in 0..10 {
            on_cpu(round % 2, 1 + round % 3);
            let stats = pool.stats();
            assert_eq!((stats.free, stats.reserved), (stats.reserved, (1 + round).min(3)), "round {round}");
        }
        pool.trim(0).unwrap();
        assert_eq!((pool.stats().free, pool.stats().reserved, pool.stats().kept_bytes), (0, 0, 0));
    }
}
