//! An entry of a page table.
//!
//! *Owned*: the frame is the area's, and goes back when the area is flushed. *Stale*: the page was
//! unmapped, and some CPU may still hold its translation. The entry keeps the frame until none
//! does.

use crate::format::Format;
use core::marker::PhantomData;
use vmalloc::{Frame, PlatformError, PlatformFault, Protection};

/// Frames that are taken or given at a time: a small array on the stack.
pub(crate) const BATCH: usize = 64;

/// Returns how many entries a table has.
pub(crate) const fn entries<F: Format>() -> u64 {
    1 << F::TABLE_SHIFT
}

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<F>(pub(crate) u64, PhantomData<F>);

impl<F: Format> Entry<F> {
    /// The empty entry.
    pub(crate) const NONE: Self = Self::of(0);

    #[inline]
    pub(crate) const fn of(value: u64) -> Self {
        Self(value, PhantomData)
    }

    #[inline]
    fn new(frame: Frame, bits: u64) -> Self {
        Self::of(frame.0 << F::FRAME_SHIFT & F::FRAME | bits)
    }

    /// Returns the entry of a page.
    #[inline]
    pub(crate) fn page(frame: Frame, bits: u64) -> Self {
        Self::new(frame, F::PAGE | bits)
    }

    /// Returns the entry of a leaf above the lowest level.
    pub(crate) fn leaf(first: Frame, bits: u64) -> Self {
        Self::new(first, F::LEAF | bits)
    }

    /// Returns the entry of a table of the level below.
    pub(crate) fn table(frame: Frame) -> Self {
        Self::new(frame, F::TABLE)
    }

    /// Returns true if a leaf is, or was, here. Only asked above the lowest level.
    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.has(F::IS_LEAF)
    }

    #[inline]
    pub(crate) fn is_present(self) -> bool {
        self.has(F::PRESENT)
    }

    /// Returns the entry of the page `frames` further.
    #[inline]
    pub(crate) fn plus(self, frames: u64) -> Self {
        Self::of(self.0 + (frames << F::FRAME_SHIFT))
    }

    #[inline]
    pub(crate) fn frame(self) -> Frame {
        Frame((self.0 & F::FRAME) >> F::FRAME_SHIFT)
    }

    #[inline]
    pub(crate) fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    #[inline]
    pub(crate) fn with(self, bits: u64) -> Self {
        Self::of(self.0 | bits)
    }

    #[inline]
    pub(crate) fn without(self, bits: u64) -> Self {
        Self::of(self.0 & !bits)
    }

    /// Returns the entry of the same page with another protection.
    #[inline]
    pub(crate) fn protected(self, protection: Protection) -> Self {
        self.without(F::ACCESS).with(F::access(protection))
    }
}

/// Returns the error of a `call` that found no frames.
pub(crate) fn out_of_memory(call: &'static str) -> PlatformError {
    PlatformError { call, fault: PlatformFault::OutOfMemory, code: 0 }
}

/// Returns the error of frames that the machine refuses.
pub(crate) fn no_frames(fault: PlatformFault) -> PlatformError {
    PlatformError { call: "frames", fault, code: 0 }
}
