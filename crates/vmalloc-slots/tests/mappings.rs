//! Kernel mappings: a program of its own, for they are counted for the whole process.
#![cfg(not(miri))]

mod common;

use common::{PAGE, pool};
use vmalloc_slots::Options;

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Slots that come and go take no kernel mappings for ever.
#[test]
fn slots_that_went_back_leave_no_mappings() {
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
