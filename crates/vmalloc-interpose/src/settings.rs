//! Settings by variables of the environment, read once by the constructor.
//!
//! A program with more rights than its caller has the defaults (`secure_getenv`). A value that
//! makes no sense costs one line on stderr, and the default is taken.

use crate::pages::page_bytes;
use std::ffi::{CStr, c_char};
use vmalloc_preload_base::{say, switch};

unsafe extern "C" {
    /// As getenv(3), but null in a program with more rights than its caller.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// The largest number of bytes that any setting may name.
const MOST_BYTES: usize = 1 << 45;

/// Where a limit on addresses is in force: this part of it may be reserved.
const PART_OF_LIMIT: u64 = 8;

/// The settings of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// `VMALLOC_MMAP_LEAST`: the size from which on a mapping is served.
    pub(crate) least: usize,
    /// `VMALLOC_MMAP_RESERVE`: the bytes of addresses to reserve.
    pub(crate) reserve: usize,
    /// `VMALLOC_MMAP_KEEP`: the bytes of unmapped areas that stay mapped for reuse.
    pub(crate) keep: usize,
    /// `VMALLOC_MMAP_CLEAR`: pages of kept areas are cleared instead of given back.
    pub(crate) clear: bool,
    /// `VMALLOC_MMAP_STATS`: one line of counts at the exit.
    pub(crate) stats: bool,
}

impl Settings {
    pub(crate) const DEFAULT: Self = Self {
        // Below, the records cost more than the addresses are worth.
        least: 64 << 10,
        // What does not fit is the kernel's.
        reserve: 256 << 30,
        // Only an area that is unmapped at once is unmapped as the kernel would.
        keep: 0,
        clear: true,
        stats: false,
    };

    /// Reads the settings from the environment.
    pub(crate) fn read() -> Self {
        let mut settings = Self::DEFAULT;
        let is_size = |bytes: &usize| *bytes >= page_bytes();
        if let Some(least) = read(c"VMALLOC_MMAP_LEAST", |text| bytes(text).filter(is_size)) {
            settings.least = least;
        }
        if let Some(reserve) = read(c"VMALLOC_MMAP_RESERVE", |text| bytes(text).filter(is_size)) {
            settings.reserve = reserve / page_bytes() * page_bytes();
        }
        settings.keep = read(c"VMALLOC_MMAP_KEEP", bytes).unwrap_or(settings.keep);
        settings.clear = read(c"VMALLOC_MMAP_CLEAR", switch).unwrap_or(settings.clear);
        settings.stats = read(c"VMALLOC_MMAP_STATS", switch).unwrap_or(settings.stats);
        settings
    }
}

/// Returns the value of a variable, if it is there and makes sense.
fn read<T>(name: &'static CStr, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    // SAFETY: a name that ends in a zero byte. The constructor runs before other threads.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the C library's answer is a string, which does not change meanwhile.
    let value = unsafe { CStr::from_ptr(value) };
    let parsed = parse(value.to_bytes());
    if parsed.is_none() {
        let [name, value] = [name, value].map(|text| text.to_str().unwrap_or("(not a text)"));
        say(format_args!("{name}={value} makes no sense; the default is taken"));
    }
    parsed
}

fn bytes(value: &[u8]) -> Option<usize> {
    vmalloc_preload_base::bytes(value, MOST_BYTES)
}

/// Returns how many bytes of addresses may be reserved.
pub(crate) fn reserve_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the answer. A failure leaves the value: no limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    match limit.rlim_cur {
        libc::RLIM_INFINITY => usize::MAX,
        bytes => (bytes / PART_OF_LIMIT) as usize,
    }
}
