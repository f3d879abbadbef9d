//! This project's own format: a few bytes an event.
//!
//! ```text
//!   "vmtrace1"                                             8 bytes: the name, and the version as its last character
//!   block:  events (1…)  bytes (1…)  payload  CRC-32       of everything before it in the block
//!   …
//!   end:    0            all events           CRC-32
//!
//!   one event in a payload:
//!   tag     bits 0-3 the kind, 4 a time follows, 5 the CPU and 6 the task of the event before, 7 the window of the allocation before
//!   time    difference to the last time, in nanoseconds, if bit 4 is set
//!   cpu, task    where the tag does not say that they are the same
//!   0 alloc      start, pages, log2 of the alignment, and unless bit 7 is set: the window's pages (0: none), its start
//!   1 failed     pages                 2 free       start
//!   3 purge      areas, pages of the hull (0: none), its start
//!   4 chunk made, 5 chunk gone, 9 break is, 10 break           a page
//!   6 map, 7 unmap, 11 protect   start, pages        8 remap   from, pages, to, pages
//! ```
//!
//! Numbers are varints: 7 bits a byte, the lowest first, the eighth set on all but the last. Pages
//! that are positions are differences to the last position, with the sign in the lowest bit; so are
//! times. The checksum is four bytes, the lowest first. A file that was cut at any place, or
//! changed, is told by its checksum or its missing end; what was read until then is good. Blocks
//! have at most 1 MiB, which is all that a reader holds.

mod code;
mod read;
mod varint;
mod write;

pub(super) use read::Blocks;
pub use write::Writer;

/// How a file begins.
pub(super) const MAGIC: &[u8; 8] = b"vmtrace1";
/// The part of it that other versions share.
pub(super) const NAME: &[u8; 7] = b"vmtrace";
/// Bytes of the largest payload that is read. Writers end a block long before.
const MOST_BYTES: u64 = 1 << 20;
/// Bytes behind which a writer ends a block.
const BLOCK_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests;
