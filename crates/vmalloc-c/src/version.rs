//! The version of the library that a program runs with.

use libc::c_char;
use std::ffi::CStr;

/// `VERSION` with a zero byte, for C.
const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("a version has no zero byte"),
};

/// Returns the version of the library that the program runs with, as `VMALLOC_VERSION` is that of
/// the header: major × 1,000,000 + minor × 1,000 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn vmalloc_version() -> u32 {
    let mut numbers = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    numbers.by_ref().take(3).fold(0, |version, number| version * 1000 + number)
}

/// Returns the version of the library as text. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn vmalloc_version_text() -> *const c_char {
    TEXT.as_ptr()
}
