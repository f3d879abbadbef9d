//! The detail of an error: code, family, and the figures.

mod facts;
mod text;

use crate::answer::Argument;
pub(crate) use facts::Facts;
use libc::{c_char, c_int};

/// The detail of a failed call, which the library fills whole. Figures are bytes and addresses, or
/// the units of a `vmalloc_map`. A figure that does not belong to the code is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_error {
    /// One of `VMALLOC_E_...`, or 0.
    pub code: i32,
    /// One of `VMALLOC_FAMILY_...`: the hundreds of the code.
    pub family: i32,
    /// The `errno` of the call, positive.
    pub error_number: i32,
    /// The `errno` of the system call that failed, if that was the cause.
    pub system_errno: i32,
    /// The figure that was asked for: bytes with the guard page, a count, a size, flags.
    pub requested: u64,
    /// The alignment asked for.
    pub alignment: u64,
    /// The first address of the range that was asked for or searched.
    pub range_start: u64,
    /// The address behind that range.
    pub range_end: u64,
    /// The largest free range of the space. It may be misaligned, or outside the limits.
    pub largest_free: u64,
    /// The limit that stands in the way.
    pub limit: u64,
    /// The address that the error is about.
    pub addr: u64,
    /// The first address of the area, range or sub-space in the way, or of the area that holds the
    /// address.
    pub other_start: u64,
    /// The address behind that, if it is known.
    pub other_end: u64,
    /// The index of the element that is wrong, counted from 0.
    pub index: u64,
    /// The system call that failed, or the invariant that does not hold.
    pub call: [c_char; 40],
    /// Zero.
    pub reserved: [u64; 7],
}

impl vmalloc_error {
    pub(crate) const NONE: Self = Self {
        code: 0,
        family: 0,
        error_number: 0,
        system_errno: 0,
        requested: 0,
        alignment: 0,
        range_start: 0,
        range_end: 0,
        largest_free: 0,
        limit: 0,
        addr: 0,
        other_start: 0,
        other_end: 0,
        index: 0,
        call: [0; 40],
        reserved: [0; 7],
    };
}

const _: () = assert!(size_of::<vmalloc_error>() == 192);

/// Writes the message of an error to `buffer`, cut to `size` bytes with the zero byte at its end.
/// Returns the bytes that the whole message has, without the zero byte, or `-EINVAL` if `error` is
/// `NULL`. With `size` 0 it writes nothing, and `buffer` may be `NULL`.
///
/// # Safety
/// `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_error_text(
    error: *const vmalloc_error,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the conditions of every call.
    let Some(error) = (unsafe { error.as_ref() }) else { return -libc::EINVAL };
    let text = text::of(error);
    if size > 0 && !buffer.is_null() {
        let count = text.len().min(size - 1);
        // SAFETY: the caller has room for `size` bytes there; the text is ours.
        unsafe {
            buffer.copy_from_nonoverlapping(text.as_ptr().cast(), count);
            buffer.add(count).write(0);
        }
    }
    text.len() as c_int
}

impl Argument {
    fn number(self) -> u64 {
        match self {
            Self::Null | Self::Name => 0,
            Self::StructSize(size) | Self::UnknownByte(size) | Self::Count(size) => size as u64,
            Self::Flags(bits) | Self::Value(bits) => bits.into(),
        }
    }
}
