//! An entry of a page table.
//!
//! ```text
//!    63   62…52   51 ………………… 12   11   10     9      8   7    6 5   4 3   2    1    0
//!    NX           frame             –  stale  owned  –  leaf  – –   cache   –  write present
//! ```
//! Bits 9 to 11 are the system's own. *Owned*: the frame is the area's, and goes back when the area
//! is flushed. *Stale*: the page was unmapped, and some CPU may still hold its translation. The
//! entry keeps the frame until none does.

use bitflags::bitflags;
use vmalloc::{Frame, PlatformError, PlatformFault, Protection};

bitflags! {
    /// The bits of an entry besides its frame.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Bits: u64 {
        const PRESENT = 1;
        const WRITABLE = 1 << 1;
        const UNCACHED = 1 << 4;
        /// In the second and third level: no table below, but a page of 2 MiB or 1 GiB.
        const LARGE = 1 << 7;
        const OWNED = 1 << 9;
        const STALE = 1 << 10;
        const NO_EXECUTE = 1 << 63;
    }
}

/// log2 of the bytes of a page.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// log2 of the entries of a table.
pub(crate) const TABLE_SHIFT: u32 = 9;
/// Entries of a table.
pub(crate) const ENTRIES: u64 = 1 << TABLE_SHIFT;

/// Frames that are taken or given at a time: a small array on the stack.
pub(crate) const BATCH: usize = 64;

const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// The empty entry.
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) fn new(frame: Frame, bits: Bits) -> Self {
        Self(frame.0 << PAGE_SHIFT & FRAME | bits.bits())
    }

    /// Returns the entry of a table of the level below. The entries of its pages say what may be
    /// done with them.
    pub(crate) fn table(frame: Frame) -> Self {
        Self::new(frame, Bits::PRESENT | Bits::WRITABLE)
    }

    /// Returns true if a page of 2 MiB or 1 GiB is, or was, here. Only asked above the lowest
    /// level, where the bit means that.
    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.has(Bits::LARGE)
    }

    /// Returns the entry of the page `frames` further.
    pub(crate) fn plus(self, frames: u64) -> Self {
        Self(self.0 + (frames << PAGE_SHIFT))
    }

    #[inline]
    pub(crate) fn frame(self) -> Frame {
        Frame((self.0 & FRAME) >> PAGE_SHIFT)
    }

    #[inline]
    pub(crate) fn has(self, bits: Bits) -> bool {
        self.0 & bits.bits() == bits.bits()
    }

    #[inline]
    pub(crate) fn with(self, bits: Bits) -> Self {
        Self(self.0 | bits.bits())
    }

    #[inline]
    pub(crate) fn without(self, bits: Bits) -> Self {
        Self(self.0 & !bits.bits())
    }

    /// Returns the entry of the same page with another protection.
    #[inline]
    pub(crate) fn protected(self, protection: Protection) -> Self {
        self.without(Bits::WRITABLE | Bits::NO_EXECUTE).with(allows(protection))
    }
}

/// Returns the bits that allow accesses by `protection`.
#[inline]
pub(crate) fn allows(protection: Protection) -> Bits {
    match protection {
        Protection::ReadWrite => Bits::WRITABLE | Bits::NO_EXECUTE,
        Protection::ReadExecute => Bits::empty(),
        // An unknown protection allows least.
        _ => Bits::NO_EXECUTE,
    }
}

/// Returns the error of a `call` that found no frames.
pub(crate) fn out_of_memory(call: &'static str) -> PlatformError {
    PlatformError { call, fault: PlatformFault::OutOfMemory, code: 0 }
}
