//! Blocks that end with their pages, for finding mistakes.
//!
//! ```text
//!   page            page            guard
//!   │        ███████│███████████████│▒▒▒▒▒    a block; its first byte past the end traps
//!   └─ the record ─►│                         of the area, which a free compares
//! ```
//!
//! A block ends at the end of its last page, as far as its alignment lets it. Its area is no larger
//! than it needs, has a tag that tells the size, and is never resized: the block moves, and a stale
//! pointer to it traps.

use std::fmt::{self, Write};
use vmalloc_linux::Request;

/// The alignment of every block of a malloc on 64-bit machines.
const LEAST_ALIGN: usize = 16;

/// Returns how far behind the start of its area a block begins.
pub(crate) fn offset(bytes: usize, align: usize, offset_mask: usize) -> usize {
    bytes.next_multiple_of(align.max(LEAST_ALIGN)).wrapping_neg() & offset_mask
}

/// Returns the request with what is known of the block of `bytes` bytes.
pub(crate) fn noted(request: Request, bytes: usize, offset: usize) -> Request {
    let mut text = Text { bytes: [0; 31], len: 0 };
    let _ = write!(text, "block of {bytes} bytes");
    let tag = std::str::from_utf8(&text.bytes[..text.len]).unwrap_or_default();
    let request = if offset == 0 { request } else { request.record(offset as u64) };
    request.tag(tag)
}

/// A short text, made without allocation.
struct Text {
    bytes: [u8; 31],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_with_its_last_page_as_far_as_its_alignment_lets_it() {
        for align in [1, 16, 64, 1024, 4096, 1 << 14] {
            for bytes in [1, 15, 16, 100, 4095, 4096, 4097, 100_000] {
                let offset = offset(bytes, align, 4095);
                let slack = (offset + bytes).next_multiple_of(4096) - offset - bytes;
                assert!(offset.is_multiple_of(align.min(4096)) && slack < align.max(16), "{bytes} {align}");
            }
        }
    }
}
