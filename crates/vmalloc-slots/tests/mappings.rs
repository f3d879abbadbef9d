//! Kernel mappings: a program of its own, for they are counted for the whole process.
#![cfg(not(miri))]

mod common;

use common::{PAGE, pool};
use std::sync::Mutex;
use vmalloc_slots::{Options, Slot};

/// Held by each test: they count what the process has.
static ALONE: Mutex<()> = Mutex::new(());

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Slots that come and go take no kernel mappings for ever.
#[test]
fn slots_that_went_back_leave_no_mappings() {
    let _alone = ALONE.lock();
    assert_eq!(vmalloc_linux::CHUNK_PAGES as usize * PAGE, 8 << 20);
    let pool = pool(Options::new(4 << 30).warm_slots(0).batch_slots(16));
    let before = mappings();
    for _ in 0..20 {
        let all: Vec<_> = (0..64).map(|_| pool.alloc().unwrap()).collect();
        drop(all);
        pool.trim(0).unwrap();
        pool.space().purge().unwrap();
        let more = mappings().saturating_sub(before);
        assert!(more < 10, "{more} more mappings");
    }
}

/// Each large slot costs two mappings, for all that is between them is left closed.
#[test]
fn large_slots_leave_an_eighth_of_the_mappings_to_the_program() {
    let _alone = ALONE.lock();
    let max: u64 = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if max > 1 << 17 {
        println!("NOT RUN: {max} mappings would take too long");
        return;
    }
    let mut pools = (0..2).map(|_| pool(Options::new(64 << 20).head_bytes(PAGE))).collect::<Vec<_>>();
    let mut slots: Vec<Slot<_>> = Vec::new();
    let refused = (0..max).find_map(|nth| match Slot::new(pools[nth as usize % 2].clone()) {
        Ok(slot) => {
            slots.push(slot);
            None
        }
        Err(error) => Some(error),
    });
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count() as u64;
    let thread = std::thread::Builder::new().spawn(|| 5);
    assert_eq!(thread.expect("there are mappings for its stack").join().unwrap(), 5);
    assert!(mappings <= max - max / 16, "{mappings} mappings of {max}, {} slots", slots.len());
    let text = refused.expect("the mappings are fewer than the slots").to_string();
    assert!(text.contains("vm.max_map_count"), "{text}");
    drop(slots);
    pools.clear();
}
