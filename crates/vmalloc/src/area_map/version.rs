//! The version of the bitmaps: how a reader without the lock learns that what it read was changing.
//!
//! ```text
//!   holder    begin   1 ── writes … ── 2   end            odd: the bitmaps are changing
//!   reader    0 ──────── reads … ──────── 2               another number than before: they were
//! ```

use crate::sync::{AtomicU64, Mutant, fence, is};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Odd while the holder of the map is changing where segments start. On a cache line of its own
/// (two, as the prefetcher takes them): what is beside it never changes, and every reader reads
/// that.
#[repr(align(128))]
pub(super) struct Version(AtomicU64);

impl Version {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a change: the holder of the map calls it before its first write.
    #[inline]
    pub(super) fn begin(&self) {
        self.step();
        // Release: what is written from here on is not seen by a reader that still reads the even
        // number before it.
        fence(Release);
    }

    /// Ends a change: the holder of the map calls it after its last write.
    #[inline]
    pub(super) fn end(&self) {
        // Release: pairs with the first Acquire in `read`.
        fence(Release);
        self.step();
    }

    #[inline(always)]
    fn step(&self) {
        if !is(Mutant::NoVersion) {
            self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns what `look` does, if nothing changed while it ran.
    #[inline(always)]
    pub(super) fn read<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        let before = self.0.load(Relaxed);
        // Acquire: pairs with the Release in `end`.
        fence(Acquire);
        let seen = look();
        // Acquire: pairs with the Release in `begin`: if anything read was newer, so is the
        // version.
        fence(Acquire);
        (before.is_multiple_of(2) && self.0.load(Relaxed) == before).then_some(seen)
    }
}
