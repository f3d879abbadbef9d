//! Which mutant is on. The copy of the core that is tested has this module.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

const UNREAD: u32 = u32::MAX;

static ON: AtomicU32 = AtomicU32::new(UNREAD);

/// Returns whether `VMALLOC_MUTANT` is `number`.
#[inline]
pub(crate) fn is(number: u32) -> bool {
    let on = ON.load(Relaxed);
    (if on == UNREAD { read() } else { on }) == number
}

/// Reads the variable. It takes no memory, for the core may be what memory comes from.
#[cold]
fn read() -> u32 {
    // SAFETY: the name ends with a zero.
    let value = unsafe { getenv(c"VMALLOC_MUTANT".as_ptr()) };
    // SAFETY: the C library returns a string, and nothing changes the variable.
    let digits = if value.is_null() { &[] } else { unsafe { CStr::from_ptr(value) }.to_bytes() };
    let number = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    ON.store(number, Relaxed);
    number
}
