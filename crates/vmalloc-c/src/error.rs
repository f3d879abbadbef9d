//! The detail of an error: code, family, the figures, and the message.

mod facts;

pub(crate) use facts::Facts;
use libc::c_char;
use std::fmt::{self, Write};

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
    /// The message, with the zero byte at its end; cut where it has no room.
    pub text: [c_char; 256],
    /// Zero.
    pub reserved: [u64; 4],
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
        text: [0; 256],
        reserved: [0; 4],
    };

    /// Enters the message.
    pub(crate) fn say(&mut self, message: &impl fmt::Display) {
        // Where the room ends, so does the message.
        let _ = write!(Text(&mut self.text, 0), "{message}");
    }
}

const _: () = assert!(size_of::<vmalloc_error>() == 384);

/// A message that is being written: its room, and how many bytes it has. The last byte of the room
/// stays zero.
struct Text<'a>(&'a mut [c_char; 256], usize);

impl Write for Text<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            let end = self.1 + letter.len_utf8();
            let room = self.0[..255].get_mut(self.1..end).ok_or(fmt::Error)?;
            let mut bytes = [0; 4];
            room.iter_mut()
                .zip(letter.encode_utf8(&mut bytes).bytes())
                .for_each(|(to, byte)| *to = byte as _);
            self.1 = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn said(message: &str) -> Vec<u8> {
        let mut error = vmalloc_error::NONE;
        error.say(&message);
        // SAFETY: the last byte is zero.
        unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_bytes().to_vec()
    }

    #[test]
    fn a_long_message_is_cut_at_a_letter_and_ends_with_zero() {
        let fits = "a".repeat(255);
        assert_eq!(said(&fits), fits.as_bytes());
        assert_eq!(said(&format!("{fits}b")), fits.as_bytes());
        assert_eq!(said(&format!("{}\u{e9}", &fits[1..])), &fits.as_bytes()[1..]);
    }
}
