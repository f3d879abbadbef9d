//! Frame numbers, as proc_pid_pagemap(5) tells them to privileged programs.

use rustix::fs::{Mode, OFlags};

/// Bits 0–54: the frame number; all zero for a program without `CAP_SYS_ADMIN`.
const FRAME: u64 = (1 << 55) - 1;
/// Bit 63: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Returns the frame behind `page`; `None` when no page is there, or the kernel does not tell.
pub(crate) fn frame(page: u64) -> Option<u64> {
    // Opened each time: after a fork the old file would be that of the parent.
    let file =
        rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut entry = [0; size_of::<u64>()];
    let read = rustix::io::pread(&file, &mut entry, page * size_of::<u64>() as u64).ok()?;
    decode(u64::from_ne_bytes(entry)).filter(|_| read == size_of::<u64>())
}

fn decode(entry: u64) -> Option<u64> {
    let frame = entry & FRAME;
    (entry & PRESENT != 0 && frame != 0).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_present_pages_with_a_number_have_a_frame() {
        assert_eq!(decode(PRESENT | 42), Some(42));
        assert_eq!(decode(PRESENT | 1 << 55 | 42), Some(42));
        assert_eq!(decode(PRESENT), None);
        assert_eq!(decode(42), None);
    }
}
