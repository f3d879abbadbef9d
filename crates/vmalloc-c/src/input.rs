//! Reading what a caller hands in: structs of any version, strings, arrays.
//!
//! ```text
//!   the caller's struct    │ size │ fields that both know │ fields of a later version: zero, or E2BIG │
//!   ours                   │ size │ fields that both know │ fields of a later version: zero           │
//! ```

use crate::answer::{Argument, Refusal};
use libc::c_char;
use std::ffi::CStr;
use std::slice;

/// The most bytes that a struct of any version may have: a larger size was never set. A bound, and
/// no page size.
const MOST_BYTES: usize = 4096;

/// A struct with its size in front, whose size may differ between caller and library.
///
/// # Safety
/// The type is `repr(C)`, its first field is its size in bytes, a `usize`, it has no padding, and
/// zeros are a valid value of all other fields.
pub(crate) unsafe trait Versioned: Copy {
    /// The size of the first version.
    const FIRST: usize;
}

/// Makes a struct of C of one of Rust: its size, fields of the same names, and others.
macro_rules! told {
    ($from:ident => $to:ident, $told:ident; $($same:ident),*; $($other:ident: $value:expr,)*) => {
        impl From<$from> for $to {
            fn from($told: $from) -> Self {
                Self { size: size_of::<Self>(), $($same: $told.$same as _,)* $($other: $value,)* }
            }
        }
    };
}

pub(crate) use told;

/// Returns the caller's struct as one of ours.
///
/// # Safety
/// `from` is null, or leads to as many bytes as its first field says, as far as these are a size.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Result<T, Refusal> {
    // SAFETY: the caller's condition.
    let size = unsafe { size_of_given(from) }?;
    // SAFETY: the caller has so many bytes there.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    if let Some(nth) = bytes[known..].iter().position(|&byte| byte != 0) {
        return Err(Argument::UnknownByte(known + nth).into());
    }
    // SAFETY: all zeros are a valid value (`Versioned`).
    let mut ours: T = unsafe { std::mem::zeroed() };
    // SAFETY: both have as many bytes; any bytes are a value of the fields, which are numbers and
    // pointers.
    unsafe { (&raw mut ours).cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), known) };
    Ok(ours)
}

/// Returns the caller's struct as one of ours, or all defaults for null.
///
/// # Safety
/// That of [`read`].
pub(crate) unsafe fn read_or_default<T: Versioned>(from: *const T) -> Result<T, Refusal> {
    if from.is_null() {
        // SAFETY: all zeros are a valid value (`Versioned`).
        return Ok(unsafe { std::mem::zeroed() });
    }
    // SAFETY: the caller's condition.
    unsafe { read(from) }
}

/// Fills the caller's struct: all but its size, and fields that this version does not know with
/// zeros.
///
/// # Safety
/// That of [`read`], and the bytes may be written.
pub(crate) unsafe fn fill<T: Versioned>(to: *mut T, ours: &T) -> Result<(), Refusal> {
    // SAFETY: the caller's condition.
    let size = unsafe { size_of_given(to) }?;
    let (known, head) = (size.min(size_of::<T>()), size_of::<usize>());
    // SAFETY: the caller has `size` bytes there, and ours has `known`.
    unsafe {
        let to = to.cast::<u8>();
        to.add(head).copy_from_nonoverlapping(std::ptr::from_ref(ours).cast::<u8>().add(head), known - head);
        to.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// Returns the size that the caller's struct says it has, if some version has as much: then it may
/// be read or filled.
///
/// # Safety
/// That of [`read`].
pub(crate) unsafe fn size_of_given<T: Versioned>(given: *const T) -> Result<usize, Refusal> {
    // SAFETY: the first field is the size (`Versioned`), and the caller has it there.
    let size = unsafe { given.cast::<usize>().as_ref() }.copied().ok_or(Argument::Null)?;
    match (T::FIRST..=MOST_BYTES).contains(&size) {
        true => Ok(size),
        false => Err(Argument::StructSize(size).into()),
    }
}

/// Returns the caller's string, or none for null.
///
/// # Safety
/// `name` is null, or ends with a zero byte and is not changed during the call.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Result<Option<&'a str>, Refusal> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map(Some).map_err(|_| Argument::Name.into())
}

/// Returns the caller's array. Null is an array without elements.
///
/// # Safety
/// It has `count` elements, which nothing changes during the call.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize) -> Result<&'a [T], Refusal> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Argument::Null.into()),
        _ if count > isize::MAX as usize / size_of::<T>().max(1) => Err(Argument::Count(count).into()),
        // SAFETY: the caller has as many there.
        (false, _) => Ok(unsafe { slice::from_raw_parts(first, count) }),
    }
}

/// Checks that no flag but `known` is set.
pub(crate) fn flags(given: u32, known: u32) -> Result<u32, Refusal> {
    if given & !known == 0 { Ok(given) } else { Err(Argument::Flags(given).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Options {
        size: usize,
        one: u64,
        two: u64,
    }

    // SAFETY: numbers alone, the size first.
    unsafe impl Versioned for Options {
        const FIRST: usize = 16;
    }

    fn read_prefix(words: &[usize]) -> Result<Options, Refusal> {
        // SAFETY: each test has as many words as it says.
        unsafe { read(words.as_ptr().cast()) }
    }

    #[test]
    fn bytes_that_the_caller_does_not_know_are_defaults() {
        assert_eq!(read_prefix(&[16, 7, 9]).unwrap(), Options { size: 16, one: 7, two: 0 });
        assert_eq!(read_prefix(&[24, 7, 9]).unwrap(), Options { size: 24, one: 7, two: 9 });
    }

    #[test]
    fn bytes_that_the_library_does_not_know_are_zero_or_refused() {
        assert_eq!(read_prefix(&[32, 7, 9, 0]).unwrap(), Options { size: 32, one: 7, two: 9 });
        let refused = read_prefix(&[32, 7, 9, 1 << 8]);
        assert!(matches!(refused, Err(Refusal::Argument(Argument::UnknownByte(25)))), "{refused:?}");
        for size in [0, 8, 15, 4097, usize::MAX] {
            let refused = read_prefix(&[size, 0, 0, 0]);
            assert!(matches!(refused, Err(Refusal::Argument(Argument::StructSize(_)))), "{refused:?}");
        }
    }

    #[test]
    fn answers_fit_into_the_caller_s_struct() {
        let ours = Options { size: 24, one: 1, two: 2 };
        for (size, wanted) in [(16usize, [16usize, 1, 5, 5]), (24, [24, 1, 2, 5]), (32, [32, 1, 2, 0])] {
            let mut words = [size, 5, 5, 5];
            // SAFETY: there are 32 bytes.
            unsafe { fill(words.as_mut_ptr().cast(), &ours) }.unwrap();
            assert_eq!(words, wanted);
        }
    }
}
