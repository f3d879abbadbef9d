//! The version of the bitmaps: how a reader without the lock learns that what it read was changing.
//!
//! ```text
//!   holder    begin   1 ── writes … ── 2   end            odd: the bitmaps are changing
//!   reader    0 ──────── reads … ──────── 2               another number than before: they were
//! ```

use crate::sync::{AtomicU64, fence};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use zerocopy::FromZeros;

/// Odd while the holder of the map is changing where segments start. On a cache line of its own
/// (two, as the prefetcher takes them): what is beside it never changes, and every reader reads
/// that.
#[derive(FromZeros)]
#[repr(align(128))]
pub(crate) struct Version(AtomicU64);

impl Version {
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
        // Release: pairs with the Acquire in `before`.
        fence(Release);
        self.step();
    }

    #[inline(always)]
    fn step(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    /// Returns the version, before a reader's first read.
    #[inline(always)]
    pub(super) fn before(&self) -> u64 {
        let version = self.0.load(Relaxed);
        // Acquire: pairs with the Release in `end`.
        fence(Acquire);
        version
    }

    /// Returns true if nothing changed since the version was `before`, after a reader's last read.
    #[inline(always)]
    pub(super) fn is_still(&self, before: u64) -> bool {
        // Acquire: pairs with the Release in `begin`: if anything read was newer, so is the
        // version.
        fence(Acquire);
        // An odd number is not that before it: versions only grow.
        self.0.load(Relaxed) == before & !1
    }
}
