//! A part of a platform, as a platform.

use crate::SubspaceState;
use crate::counted::Counted;
use crate::mapped_set::Charge;
use crate::plan::Part;
use crate::root::{Divisible, Shared};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use vmalloc::{
    DirectMemory, Discard, DrainReason, Evict, Extras, Frame, FrameRun, FrameSupply, Geometry, MapFrames,
    Origin, PageRange, Platform, PlatformError, Protect, Protection, ReadNofault, Relocate, Translate,
};

/// A sub-space whose memory can be read and written.
#[derive(Debug)]
pub enum Writable {}

/// A sub-space whose memory is mapped with another protection: it is no [`DirectMemory`], shows no
/// frames, and discards nothing, since all of these write.
#[derive(Debug)]
pub enum Protected {}

/// A part of a platform's span, which a [`Root`](crate::Root) reclaims when it is dropped.
///
/// It hands every call on to the platform, within its limit. No background thread drains it: the
/// freeing thread does, or the caller of [`Space::drain`](vmalloc::Space::drain).
pub struct Subspace<P: Platform, A = Writable> {
    lease: Lease<P>,
    protection: Protection,
    access: PhantomData<fn() -> A>,
}

/// The range of a sub-space, reclaimed on drop.
struct Lease<P: Platform> {
    shared: Counted<Shared<P>>,
    part: Counted<Part<P::RawLock>>,
}

impl<P: Platform> Drop for Lease<P> {
    fn drop(&mut self) {
        self.shared.reclaim(&self.part);
    }
}

impl<P: Divisible> Subspace<P> {
    pub(crate) fn new(shared: Counted<Shared<P>>, part: Counted<Part<P::RawLock>>) -> Self {
        let lease = Lease { shared, part };
        Self { lease, protection: Protection::ReadWrite, access: PhantomData }
    }

    pub(crate) fn protected(self, protection: Protection) -> Subspace<P, Protected> {
        Subspace { lease: self.lease, protection, access: PhantomData }
    }
}

impl<P: Divisible, A> Subspace<P, A> {
    /// Returns the platform that this is a part of.
    #[inline]
    pub fn parent(&self) -> &P {
        &self.lease.shared.platform
    }

    /// Marks the sub-space as live: it is ready for use by its owner.
    pub(crate) fn set_live(&self) {
        self.lease.shared.plan.lock().set_state(&self.lease.part, SubspaceState::Live);
    }

    /// Returns `asked`, or the sub-space's own protection where the caller asks for the default.
    fn protection(&self, asked: Protection) -> Protection {
        if asked == Protection::default() { self.protection } else { asked }
    }

    /// Calls `map` with `range` entered in the mapped set, if the limit allows it.
    fn charged(
        &self,
        range: PageRange,
        map: impl FnOnce() -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        let charge = self.lease.part.mapped.lock().charge(range)?;
        self.settled(&charge, map())
    }

    fn settled(&self, charge: &Charge, result: Result<(), PlatformError>) -> Result<(), PlatformError> {
        if result.is_err() {
            self.lease.part.mapped.lock().refund(charge);
        }
        result
    }
}

/// Methods that the platform below answers. It gets the caller's promises with them.
macro_rules! forward {
    (
        $(fn $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*
        $(unsafe fn $call:ident($($with:ident: $kind:ty),*) $(-> $answer:ty)?;)*
    ) => {
        $(fn $name(&self, $($arg: $of),*) -> $result {
            self.parent().$name($($arg),*)
        })*

        $(unsafe fn $call(&self, $($with: $kind),*) $(-> $answer)? {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.parent().$call($($with),*) }
        })*
    };
}

// SAFETY: the span is constant, inside that of the platform below, and by SUB-1 no other
// sub-space's. The platform below keeps the promises on mapped, unmapped and flushed pages: it gets
// every call, with the caller's promises. Only a `Protected` sub-space maps with a protection that
// forbids writing: it is no `DirectMemory`, shows no frames and discards nothing, so nothing but
// `zero` would write there. The locks are those of the platform below.
unsafe impl<P: Divisible, A> Platform for Subspace<P, A> {
    type RawLock = P::RawLock;
    type PurgeLock = P::PurgeLock;
    type Context = P::Context;

    fn extras(&self) -> &dyn Extras {
        self
    }

    fn geometry(&self) -> Geometry {
        self.lease.shared.platform.geometry().span(self.lease.part.range)
    }

    #[inline]
    fn cpu(&self) -> usize {
        self.parent().cpu()
    }

    unsafe fn map(
        &self,
        range: PageRange,
        protection: Protection,
        context: P::Context,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map(range, self.protection(protection), context) })
    }

    unsafe fn map_huge(
        &self,
        range: PageRange,
        protection: Protection,
        context: P::Context,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map_huge(range, self.protection(protection), context) })
    }

    forward! {
        fn init_purge_lock(lock: &P::PurgeLock) -> bool;
        fn entropy() -> u64;
        fn fatal(damage: &dyn fmt::Display) -> !;
        unsafe fn unmap(ranges: &[PageRange]) -> Result<(), PlatformError>;
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().flush(ranges)? };
        for range in ranges {
            // Locked again for each: a purge may have many ranges, and other threads wait to map.
            self.lease.part.mapped.lock().clear(*range);
        }
        Ok(())
    }

    /// Does nothing where memory can't be written. Such memory is zero: the platform maps zeros, or
    /// there is no such sub-space, and pages are never used twice.
    unsafe fn zero(&self, range: PageRange) {
        if self.protection == Protection::ReadWrite {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.parent().zero(range) };
        }
    }

    /// Returns false: the drain of the platform below serves the space over all of it, not this
    /// one.
    fn drain_later(&self, _: DrainReason) -> bool {
        false
    }
}

// SAFETY: the platform below keeps the promises, and gets every call; it lends this one nothing.
unsafe impl<P: Divisible, A> Extras for Subspace<P, A> {
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().extras().unmap_now(range, tag)? };
        self.lease.part.mapped.lock().clear(range);
        Ok(())
    }

    fn evict_memory(&self, part: Evict) -> bool {
        self.parent().extras().evict_memory(part)
    }

    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().extras().mark_altered(range) }
    }

    unsafe fn resident(&self, range: PageRange) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().extras().resident(range) }
    }

    unsafe fn make_huge(&self, range: PageRange) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().extras().make_huge(range) }
    }
}

// SAFETY: its pages are those of the platform below, mapped readable and writable.
unsafe impl<P: Divisible + DirectMemory> DirectMemory for Subspace<P> {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl<P: Divisible + DirectMemory + Relocate> Relocate for Subspace<P> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        // Both count until `from` is flushed, whatever the limit: the memory is the same.
        let charge = self.lease.part.mapped.lock().enter(to)?;
        // SAFETY: the caller's promise is passed on.
        self.settled(&charge, unsafe { self.parent().relocate(from, to) })
    }
}

// SAFETY: frames are those of the platform below, which gets every call with the caller's promises.
unsafe impl<P: Divisible + FrameSupply> FrameSupply for Subspace<P> {
    forward! {
        fn take_frames(frames: &mut [Frame]) -> Result<(), PlatformError>;
        fn take_run(count: u64, align: u64) -> Result<Frame, PlatformError>;
        fn origin(frame: Frame) -> Origin;
        fn are_taken(first: Frame, count: u64) -> bool;
        unsafe fn give_frames(frames: &[Frame]);
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl<P: Divisible + MapFrames> MapFrames for Subspace<P> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let protection = self.protection(protection);
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map_frames(range, frames, protection) })
    }

    unsafe fn map_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let protection = self.protection(protection);
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map_runs(range, runs, protection) })
    }

    forward! {
        fn runs_of(frames: &[Frame]) -> Option<Vec<FrameRun>>;
        fn order_of(runs: &[FrameRun]) -> u32;
        fn frame_at(page: u64) -> Option<Frame>;
        unsafe fn discard_hint(range: PageRange);
    }
}

// SAFETY: the platform below protects the pages, and answers for it.
unsafe impl<P: Divisible + Protect, A> Protect for Subspace<P, A> {
    forward! {
        unsafe fn protect(range: PageRange, protection: Protection) -> Result<(), PlatformError>;
    }
}

// SAFETY: the platform below drops the memory, and answers for it.
unsafe impl<P: Divisible + Discard> Discard for Subspace<P> {
    forward! {
        unsafe fn discard(ranges: &[PageRange]) -> Result<(), PlatformError>;
        unsafe fn touched(range: PageRange, found: &mut dyn FnMut(PageRange));
    }
}

impl<P: Divisible + ReadNofault, A> ReadNofault for Subspace<P, A> {
    forward! {
        fn read_nofault(addr: usize, to: &mut [u8]) -> usize;
    }
}

impl<P: Divisible + Translate, A> Translate for Subspace<P, A> {
    forward! {
        fn physical_page(page: u64) -> Option<u64>;
    }
}
