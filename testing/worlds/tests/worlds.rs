//! A few worlds of each kind, without forks and with them.

use std::time::{Duration, Instant};
use vmalloc_harness::peek;
use vmalloc_linux::page_bytes;
use vmalloc_worlds::look::{has_memory, resident};
use vmalloc_worlds::{Forks, Kind};

/// Runs worlds from the seed on for so many seconds.
fn run_some(kind: Kind, seconds: u64, default: u64, forks: Forks) {
    let end = Instant::now() + Duration::from_secs(vmalloc_model::env::seconds(seconds));
    let seeds = (vmalloc_model::env::seed(default)..).take_while(|_| Instant::now() < end);
    let steps: Vec<u64> = seeds.map(|seed| kind.run(seed, Duration::from_millis(700), forks)).collect();
    println!("{} worlds, {} steps", steps.len(), steps.iter().sum::<u64>());
    assert!(steps.iter().any(|steps| *steps > 0), "no world was opened");
}

#[test]
fn random_worlds_hold() {
    run_some(Kind::Api, 8, 1000, Forks::None);
}

#[test]
fn random_worlds_hold_around_forks() {
    run_some(Kind::Api, 8, 2000, Forks::Some);
}

#[test]
fn slots_are_zero_and_keep_no_more_than_is_allowed() {
    run_some(Kind::Slots, 3, 3000, Forks::None);
    run_some(Kind::Slots, 3, 4000, Forks::Some);
}

#[test]
fn stacks_keep_their_content_and_their_guards() {
    run_some(Kind::Stacks, 3, 5000, Forks::None);
    run_some(Kind::Stacks, 3, 6000, Forks::Some);
}

#[test]
fn blocks_of_allocators_keep_their_content() {
    run_some(Kind::Heap, 3, 7000, Forks::None);
    run_some(Kind::Heap, 3, 8000, Forks::Some);
}

#[test]
fn pages_that_were_written_are_resident_and_those_that_were_read_are_not() {
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which is never unmapped.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            200 * page_bytes(),
            libc::PROT_READ | libc::PROT_WRITE,
            anonymous,
            -1,
            0,
        )
    };
    let start = memory.expose_provenance();
    for page in (0..150).step_by(2) {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(start + page * page_bytes());
        // SAFETY: the mapping is this test's.
        unsafe { byte.write_volatile(1) };
        // SAFETY: as above.
        assert_eq!(unsafe { byte.add(page_bytes()).read_volatile() }, 0);
    }
    assert!(matches!(resident(start..start + 200 * page_bytes()), None | Some(75)));
    assert!(has_memory(start) && !has_memory(start + 190 * page_bytes()));
    assert_eq!((peek(start), peek(start + page_bytes()), peek(8)), (Some(1), Some(0), None));
}
