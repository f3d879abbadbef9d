//! Words that one thread writes, the holder of the map, while others read them.
//!
//! All loads and stores are relaxed, and so cost what plain ones cost. That is enough. A word
//! that a reader without the map reads may be fixed as long as its area is in use; then it was
//! published with the area's address. Any other word is checked afterwards (`Space::try_find`).

use crate::sync::{AtomicU32, AtomicU64};
use core::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, IntoBytes};

/// 64 bits.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(crate) struct Long(AtomicU64);

/// 32 bits.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU32);

impl Long {
    pub(super) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds to the word. Other threads may do so too.
    #[inline(always)]
    pub(super) fn add(&self, value: u64) {
        self.0.fetch_add(value, Relaxed);
    }

    /// Sets the bits of `mask` and returns what was there. Other threads may change other bits.
    #[inline(always)]
    pub(super) fn fetch_or(&self, mask: u64) -> u64 {
        self.0.fetch_or(mask, Relaxed)
    }

    /// Keeps the bits of `mask` and returns what was there. Other threads may change other bits.
    #[inline(always)]
    pub(super) fn fetch_and(&self, mask: u64) -> u64 {
        self.0.fetch_and(mask, Relaxed)
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
}
