//! Calls of the C library: one allocation and one free of 3 pages, on Linux. Plain ones are also
//! counted beside those of Rust.

use crate::callgrind;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use vmalloc_c::{
    vmalloc_alloc, vmalloc_alloc_with, vmalloc_close, vmalloc_error, vmalloc_free, vmalloc_open,
    vmalloc_request, vmalloc_reserve, vmalloc_space, vmalloc_unreserve,
};
use vmalloc_linux::{LinuxOptions, Request, SharedSpace, SpaceOptions, open};

/// The workload of what a plain pair costs in C beyond a pair in Rust.
const OVER_RUST: &str = "C-over-Rust";

/// The names of the workloads: the others are pairs in C, of areas with a record or a tag too.
pub const NAMES: [&str; 5] = [OVER_RUST, "C-plain", "C-record", "C-reserved", "C-tag"];

/// Pages of the area, whose pair takes the shortest way.
const BYTES: usize = 3 << 12;

/// Turns before the windows, so that both spaces have cached an area.
const WARM_TURNS: usize = 100;

type Alloc = unsafe extern "C" fn(*mut vmalloc_space, usize, *mut vmalloc_error) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut vmalloc_space, *mut c_void, *mut vmalloc_error) -> i32;

type AllocWith =
    unsafe extern "C" fn(*mut vmalloc_space, *const vmalloc_request, *mut vmalloc_error) -> *mut c_void;

/// Counts pairs of Rust, or none, in the window `loop`, and pairs of C in the window `run`.
pub fn count(name: &str, turns: usize) {
    let rust = open(LinuxOptions::new().max_bytes(1 << 36), SpaceOptions::default()).expect("a space");
    // SAFETY: no condition but null pointers, which are allowed.
    let c = unsafe { vmalloc_open(ptr::null(), ptr::null_mut()) };
    assert!(!c.is_null(), "a space");
    let rust_turns = if name == OVER_RUST { turns } else { 0 };
    let request = vmalloc_request {
        size: size_of::<vmalloc_request>(),
        bytes: BYTES,
        align: 0,
        range_start: 0,
        range_end: 0,
        node: 0,
        seed: 0,
        flags: 0,
        policy: 0,
        tag: if name == "C-tag" { c"owner".as_ptr() } else { ptr::null() },
        record: u64::from(name == "C-record"),
    };
    let pairs = |turns| match name {
        OVER_RUST | "C-plain" => c_pairs(c, turns),
        "C-reserved" => request_pairs(c, &request, (vmalloc_reserve, vmalloc_unreserve), turns),
        _ => request_pairs(c, &request, (vmalloc_alloc_with, vmalloc_free), turns),
    };
    rust_pairs(&rust, WARM_TURNS);
    pairs(WARM_TURNS);
    callgrind::start();
    rust_pairs(&rust, rust_turns);
    callgrind::end_window(c"loop");
    pairs(turns);
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

#[inline(never)]
fn request_pairs(
    space: *mut vmalloc_space,
    request: &vmalloc_request,
    calls: (AllocWith, Free),
    turns: usize,
) {
    let (alloc, free) = black_box(calls);
    for _ in 0..turns {
        // SAFETY: as above; the tag of the request is a C string.
        let answer = unsafe {
            let area = alloc(*black_box(&space), black_box(request), ptr::null_mut());
            free(space, black_box(area), ptr::null_mut())
        };
        assert_eq!(answer, 0, "an area");
    }
}
