//! Helpers of all tests: touching memory without dying of it, children.
#![allow(dead_code, unreachable_pub)]

use std::ops::Range;
pub use vmalloc_harness::{in_own_process, peek};
use vmalloc_linux::LinuxOptions;
pub use vmalloc_linux::page_bytes;
use vmalloc_stacks::{Stack, Stacks, StacksOptions};

/// Opens a pool with stacks of `pages` pages, of which `keep` stay warm, without threads.
pub fn open(pages: usize, keep: usize) -> Stacks {
    Stacks::open_with(addresses(1 << 30), &settings(pages, keep)).unwrap()
}

pub fn settings(pages: usize, keep: usize) -> StacksOptions {
    StacksOptions::new().stack_bytes(pages * page_bytes()).keep_bytes(keep * page_bytes())
}

/// So many bytes of addresses, without a drain thread.
pub fn addresses(bytes: usize) -> LinuxOptions {
    LinuxOptions::new().max_bytes(bytes).drain_thread(false)
}

#[track_caller]
pub fn assert_traps(addr: usize) {
    assert_eq!(peek(addr), None, "{addr:#x} does not trap");
}

/// Asserts that both pages beside a stack trap, at both of their ends.
#[track_caller]
pub fn assert_guarded(bottom: usize, top: usize) {
    for addr in [bottom - page_bytes(), bottom - 1, top, top + page_bytes() - 1] {
        assert_traps(addr);
    }
}

/// Writes to each of the top `pages` pages, at both ends, as dense frames do.
pub fn use_pages(stack: &Stack, pages: usize, value: u8) {
    for page in 1..=pages {
        let start = stack.top() - page * page_bytes();
        assert!(start >= stack.bottom());
        for addr in [start, start + page_bytes() - 64] {
            // SAFETY: inside of the stack, which is the caller's.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(value, 64) };
        }
    }
}

/// Returns how many pages of `range` have memory behind them.
pub fn resident(range: Range<usize>) -> usize {
    vmalloc_harness::resident(range)
}

/// Runs `body` in a child, where it does not panic.
#[track_caller]
pub fn in_child(body: impl FnOnce()) {
    vmalloc_harness::in_forked_child(|| {
        body();
        true
    });
}
