//! Words that one thread writes, the holder of the map, while others read them.
//!
//! All loads and stores are relaxed, and so cost what plain ones cost. That is enough: what a reader without the
//! map looks at is either fixed as long as its area is in use, and was published with the area's address, or is
//! checked afterwards (`Space::try_find`).

use crate::sync::{AtomicU32, AtomicU64};
use core::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, IntoBytes};

/// 64 bits.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(super) struct Long(AtomicU64);

/// 32 bits.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(super) struct Word(AtomicU32);

impl Long {
    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Sets the bits of `mask`, whoever else changes others; what was there.
    #[inline(always)]
    pub(super) fn join(&self, mask: u64) -> u64 {
        self.0.fetch_or(mask, Relaxed)
    }

    /// Clears the bits of `mask`, whoever else changes others; what was there.
    #[inline(always)]
    pub(super) fn part(&self, mask: u64) -> u64 {
        self.0.fetch_and(!mask, Relaxed)
    }
}

impl Word {
    #[inline(always)]
    pub(super) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// Sets the bits of `mask`, whoever else changes others.
    pub(super) fn join(&self, mask: u32) {
        self.0.fetch_or(mask, Relaxed);
    }

    /// Clears the bits of `mask`, whoever else changes others.
    pub(super) fn part(&self, mask: u32) {
        self.0.fetch_and(!mask, Relaxed);
    }
}
