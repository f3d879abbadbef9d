//! What the tests on Linux share.
#![allow(dead_code, unreachable_pub)]

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use vmalloc::{ReadNofault, Space, SpaceOptions};
use vmalloc_harness::not_run;
pub use vmalloc_linux::page_bytes;
use vmalloc_linux::{Error, GuardMeans, Linux, ReserveError, open};
use vmalloc_slots::{Slot, Slots, SlotsOptions, SlotsRef};

pub type Pool = Slots<Arc<Space<Linux>>>;

/// Returns a space for each kind of guards that this kernel has.
pub fn spaces() -> Vec<Arc<Space<Linux>>> {
    GuardMeans::all().filter_map(|kind| space(vmalloc_linux::LinuxOptions::new().guard_means(kind))).collect()
}

/// Returns a space with these options, or `None` where this kernel lacks their means. No huge page
/// comes by itself, so that what is resident can be counted. No thread drains it, so that what
/// waits can be.
pub fn space(options: vmalloc_linux::LinuxOptions) -> Option<Arc<Space<Linux>>> {
    match open(options.huge_pages(false).drain_thread(false), SpaceOptions::default()) {
        Ok(space) => Some(space),
        Err(Error::Reserve(error @ ReserveError::Unsupported { means, .. })) => {
            not_run(means, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the options of the space of a [`pool`].
pub fn addresses() -> vmalloc_linux::LinuxOptions {
    vmalloc_linux::LinuxOptions::new().max_bytes(1 << (usize::BITS / 2 + 12)).huge_pages(false)
}

/// Returns a pool on a space of its own, which no thread drains.
pub fn pool(options: SlotsOptions) -> Arc<Pool> {
    Arc::new(Slots::new(space(addresses()).unwrap(), options).unwrap())
}

/// Returns a pool on a space of its own that the drain thread drains.
pub fn drained_pool(options: SlotsOptions) -> Arc<Pool> {
    let space = open(addresses(), SpaceOptions::default()).unwrap();
    Arc::new(Slots::new(space, options).unwrap())
}

/// Returns the byte at `addr`, or `None` if a touch of it would trap.
pub fn peek(space: &Space<Linux>, addr: usize) -> Option<u8> {
    let mut byte = [0];
    (space.platform().read_nofault(addr, &mut byte) == 1).then_some(byte[0])
}

/// Writes a byte to each page of the first `bytes` of a slot.
pub fn fill<R: SlotsRef<Space = Arc<Space<Linux>>>>(slot: &mut Slot<R>, bytes: usize) {
    assert!(bytes <= slot.committed_bytes());
    for offset in (0..bytes).step_by(page_bytes()) {
        // SAFETY: the slot is the caller's, and committed so far.
        unsafe { slot.as_ptr().add(offset + offset / page_bytes() % page_bytes()).write_volatile(0xa5) };
    }
}

/// Returns true if all that is committed of a slot is zero. Reads all of it.
pub fn is_zero<R: SlotsRef<Space = Arc<Space<Linux>>>>(slot: &Slot<R>) -> bool {
    // SAFETY: the slot is the caller's, and committed so far.
    let bytes = unsafe { std::slice::from_raw_parts(slot.as_ptr(), slot.committed_bytes()) };
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns how many pages so many bytes have.
pub fn pages_in(bytes: usize) -> u64 {
    (bytes / page_bytes()) as u64
}

/// Returns how many pages of a slot have memory of their own, as proc_pid_pagemap(5) tells. The
/// page of zeros is present, and not mapped by one page table alone.
pub fn resident<R: SlotsRef<Space = Arc<Space<Linux>>>>(slot: &Slot<R>) -> u64 {
    const PRESENT_AND_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
    let map = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut entries = vec![0; slot.committed_bytes() / page_bytes() * size_of::<u64>()];
    map.read_exact_at(&mut entries, (slot.addr() / page_bytes() * size_of::<u64>()) as u64).unwrap();
    let entries = entries.chunks_exact(size_of::<u64>());
    entries
        .map(|entry| u64::from_ne_bytes(entry.try_into().unwrap()))
        .filter(|entry| entry & PRESENT_AND_EXCLUSIVE == PRESENT_AND_EXCLUSIVE)
        .count() as u64
}
