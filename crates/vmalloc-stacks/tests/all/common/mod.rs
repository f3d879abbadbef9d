//! Helpers of all tests: touching memory without dying of it, children, seeds.
#![allow(dead_code, unreachable_pub)]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
pub use vmalloc_harness::in_own_process;
use vmalloc_stacks::{Stack, Stacks, StacksOptions};

pub const PAGE: usize = 4096;

/// Opens a pool with stacks of `pages` pages, of which `keep` stay warm, without threads.
pub fn open(pages: usize, keep: usize) -> Stacks {
    Stacks::open(&settings(pages, keep)).unwrap()
}

pub fn settings(pages: usize, keep: usize) -> StacksOptions {
    StacksOptions::new().stack_bytes(pages * PAGE).keep_bytes(keep * PAGE).span_bytes(1 << 30).threads(false)
}

/// Returns the byte at `addr`, or `None` when touching it traps. The kernel touches it for us: a
/// system call that is given an address that traps fails with `EFAULT`.
pub fn peek(addr: usize) -> Option<u8> {
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the kernel checks the address.
    let written = unsafe { libc::write(pipe[1], ptr::with_exposed_provenance(addr), 1) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    let mut byte = 0_u8;
    if written == 1 {
        // SAFETY: room for one byte.
        assert_eq!(unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) }, 1);
    } else {
        assert_eq!(errno, Some(libc::EFAULT));
    }
    for end in pipe {
        // SAFETY: open and ours.
        unsafe { libc::close(end) };
    }
    (written == 1).then_some(byte)
}

#[track_caller]
pub fn assert_traps(addr: usize) {
    assert_eq!(peek(addr), None, "{addr:#x} does not trap");
}

/// Asserts that both pages beside a stack trap, at both of their ends.
#[track_caller]
pub fn assert_guarded(bottom: usize, top: usize) {
    for addr in [bottom - PAGE, bottom - 1, top, top + PAGE - 1] {
        assert_traps(addr);
    }
}

/// Writes to each of the top `pages` pages, at both ends, as dense frames do.
pub fn use_pages(stack: &Stack, pages: usize, value: u8) {
    for page in 1..=pages {
        let start = stack.top() - page * PAGE;
        assert!(start >= stack.bottom());
        for addr in [start, start + PAGE - 64] {
            // SAFETY: inside of the stack, which is the caller's.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(value, 64) };
        }
    }
}

/// Returns how many pages of `range` have memory behind them.
pub fn resident(range: Range<usize>) -> usize {
    let mut pages = vec![0_u8; range.len() / PAGE];
    // SAFETY: room for a byte a page; the kernel checks the addresses.
    let answer = unsafe {
        libc::mincore(ptr::with_exposed_provenance_mut(range.start), range.len(), pages.as_mut_ptr())
    };
    assert_eq!(answer, 0, "{range:x?} is not mapped");
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

/// Runs `body` in a child, and returns how that ended: its status.
pub fn status_of_child(body: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `body` alone, and ends without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed"),
        0 => {
            let ended = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: no conditions.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: room for the status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            status
        }
    }
}

/// Runs `body` in a child, where it does not panic.
#[track_caller]
pub fn in_child(body: impl FnOnce()) {
    let status = status_of_child(body);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
}

/// Returns the seed of a random test, which it prints. `VMALLOC_SEED` repeats one.
pub fn seed() -> u64 {
    let seed = vmalloc_harness::env::seed(20_261_125);
    eprintln!("VMALLOC_SEED={seed}");
    seed
}
