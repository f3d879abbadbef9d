//! Callers that get the flush protocol wrong: what the simulator must not let pass.

use crate::sim::Sim;
use lock_api::RawMutex;
use parking_lot::Mutex;
use std::fmt;
use vmalloc::{
    Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform, PlatformError, Protection,
};

/// A mistake of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// No flush.
    DropFlush,
    /// Only the lowest range of a set is flushed.
    FlushLowestOnly,
    /// A flush comes after the map that follows it.
    DelayFlush,
    /// No page is ever discarded.
    NeverDiscard,
}

/// A machine under a caller that makes a mistake: every call reaches it but the flushes, which come
/// wrong or not at all.
///
/// Made of the simulator alone, where a broken promise is a fault and no damage.
#[derive(Debug)]
pub struct Broken<L = parking_lot::RawMutex> {
    inner: Sim<L>,
    mistake: Mistake,
    /// Sets whose flush is put off.
    late: Mutex<Vec<Vec<PageRange>>>,
}

impl<L: RawMutex + Send + Sync + 'static> Broken<L> {
    /// Returns `inner` with a caller that makes this mistake.
    pub fn new(inner: Sim<L>, mistake: Mistake) -> Self {
        Self { inner, mistake, late: Mutex::default() }
    }

    /// Returns the machine below.
    pub fn inner(&self) -> &Sim<L> {
        &self.inner
    }

    /// Does what was put off. A failure is lost, as it would be.
    fn catch_up(&self) {
        for set in std::mem::take(&mut *self.late.lock()) {
            // SAFETY: the set was unmapped, but may have been handed out since: the mistake that is
            // wanted, which does no harm to a simulated machine.
            #[allow(unsafe_code)]
            let _ = unsafe { self.inner.flush(&set) };
        }
    }
}

// SAFETY: the promises that are not kept are those of the flush. Nothing is reachable through the
// span all the same, and this type is no `DirectMemory`. The lock excludes as `Sim`'s does.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Platform for Broken<L> {
    type RawLock = L;
    type PurgeLock = L;

    fn geometry(&self) -> Geometry {
        self.inner.geometry().huge_order(None).unmaps_now(false)
    }

    fn cpu(&self) -> usize {
        self.inner.cpu()
    }

    unsafe fn map(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        let result = unsafe { self.inner.map(range, protection) };
        self.catch_up();
        result
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        match self.mistake {
            Mistake::DropFlush => Ok(()),
            // SAFETY: the caller's promise is passed on.
            Mistake::NeverDiscard => unsafe { self.inner.flush(ranges) },
            // SAFETY: the caller's promise is passed on, for a part of it.
            Mistake::FlushLowestOnly => unsafe { self.inner.flush(&ranges[..1]) },
            Mistake::DelayFlush => {
                self.late.lock().push(ranges.to_vec());
                Ok(())
            }
        }
    }

    unsafe fn zero(&self, range: PageRange) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.zero(range) }
    }

    fn entropy(&self) -> u64 {
        self.inner.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.inner.fatal(damage)
    }
}

// SAFETY: the simulator's promises, but for pages that are not discarded: that endangers no memory.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> FrameSupply for Broken<L> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.inner.take_frames(frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.inner.take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.give_frames(frames) };
    }

    fn origin(&self, frame: Frame) -> Origin {
        self.inner.origin(frame)
    }
}

// SAFETY: see `FrameSupply`.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> MapFrames for Broken<L> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        let result = unsafe { self.inner.map_frames(range, frames, protection) };
        self.catch_up();
        result
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        if self.mistake != Mistake::NeverDiscard {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.inner.discard_hint(range) };
        }
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.inner.frame_at(page)
    }
}
