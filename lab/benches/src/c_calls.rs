//! Calls of the C library beside those of Rust: one allocation and one free of 3 pages, on Linux.

use crate::callgrind;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use vmalloc_c::{vmalloc_alloc, vmalloc_close, vmalloc_error, vmalloc_free, vmalloc_open, vmalloc_space};
use vmalloc_linux::{LinuxOptions, Request, SharedSpace, SpaceOptions, open};

/// The name of the workload: what a pair costs in C beyond a pair in Rust.
pub const NAME: &str = "C-over-Rust";

/// Pages of the area, whose pair takes the shortest way.
const BYTES: usize = 3 << 12;

/// Turns before the windows, so that both spaces have cached an area.
const WARM_TURNS: usize = 100;

type Alloc = unsafe extern "C" fn(*mut vmalloc_space, usize, *mut vmalloc_error) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut vmalloc_space, *mut c_void, *mut vmalloc_error) -> i32;

/// Counts pairs of Rust in the window `loop`, and as many of C in the window `run`.
pub fn count(turns: usize) {
    let rust = open(LinuxOptions::new().max_bytes(1 << 36), SpaceOptions::default()).expect("a space");
    // SAFETY: no condition but null pointers, which are allowed.
    let c = unsafe { vmalloc_open(ptr::null(), ptr::null_mut()) };
    assert!(!c.is_null(), "a space");
    rust_pairs(&rust, WARM_TURNS);
    c_pairs(c, WARM_TURNS);
    callgrind::start();
    rust_pairs(&rust, turns);
    callgrind::end_window(c"loop");
    c_pairs(c, turns);
    callgrind::end_window(c"run");
    callgrind::stop();
    // SAFETY: it was opened above, and all areas of it are freed.
    unsafe { vmalloc_close(c) };
}

#[inline(never)]
fn rust_pairs(space: &SharedSpace, turns: usize) {
    for _ in 0..turns {
        let raw = black_box(space).raw();
        let addr = raw.alloc(&Request::new(black_box(BYTES))).expect("memory");
        // SAFETY: the area is this turn's, and is not used.
        unsafe { raw.free(black_box(addr)) }.expect("an area");
    }
}

#[inline(never)]
fn c_pairs(space: *mut vmalloc_space, turns: usize) {
    // Through pointers, as a program in C calls a shared library.
    let (alloc, free): (Alloc, Free) = black_box((vmalloc_alloc, vmalloc_free));
    for _ in 0..turns {
        // SAFETY: the space is open, and the area is this turn's, and is not used.
        let answer = unsafe {
            let memory = alloc(*black_box(&space), black_box(BYTES), ptr::null_mut());
            free(space, black_box(memory), ptr::null_mut())
        };
        assert_eq!(answer, 0, "an area");
    }
}
