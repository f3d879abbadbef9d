//! A part of a platform, as a platform.

use super::ledger::{Charge, Ledger};
use super::{Divisible, Shared, Tenure};
use crate::addr::PageRange;
use crate::counted::Counted;
use crate::platform::{
    DirectMemory, DrainReason, Frame, FrameSupply, Geometry, MapFrames, Origin, Platform, PlatformError,
    Protect, Protection, ReadNofault, Relocate, Translate,
};
use core::fmt;
use core::marker::PhantomData;
use lock_api::Mutex;

/// A child whose memory can be read and written.
#[derive(Debug)]
pub enum Writable {}

/// A child whose memory is mapped with another protection: it is no [`DirectMemory`].
#[derive(Debug)]
pub enum Protected {}

/// A part of a platform's span, lent by a [`Root`](super::Root) until it is dropped. Everything that is asked of it is asked of
/// the platform, within the limit of the child. It has nobody to drain it later: who frees drains, or calls
/// [`Space::drain`](crate::Space::drain).
pub struct Child<P: Platform, A = Writable> {
    lease: Lease<P>,
    protection: Protection,
    access: PhantomData<fn() -> A>,
}

/// The range of a child, which it gives back in the end.
struct Lease<P: Platform> {
    shared: Counted<Shared<P>>,
    range: PageRange,
    ledger: Counted<Mutex<P::RawLock, Ledger>>,
}

impl<P: Platform> Drop for Lease<P> {
    fn drop(&mut self) {
        self.shared.take_back(self.range, &self.ledger);
    }
}

impl<P: Divisible> Child<P> {
    pub(super) fn new(
        shared: Counted<Shared<P>>,
        range: PageRange,
        ledger: Counted<Mutex<P::RawLock, Ledger>>,
    ) -> Self {
        let lease = Lease { shared, range, ledger };
        Self { lease, protection: Protection::ReadWrite, access: PhantomData }
    }

    pub(super) fn protected(self, protection: Protection) -> Child<P, Protected> {
        Child { lease: self.lease, protection, access: PhantomData }
    }
}

impl<P: Divisible, A> Child<P, A> {
    /// The platform that this is a part of.
    #[inline]
    pub fn parent(&self) -> &P {
        &self.lease.shared.platform
    }

    /// Says that the child is ready for use: whoever has it is its owner.
    pub(super) fn is_made(&self) {
        self.lease.shared.plan.lock().set(self.lease.range, Tenure::Live);
    }

    /// What is mapped where nothing else is asked for.
    fn protection(&self, asked: Protection) -> Protection {
        if asked == Protection::default() { self.protection } else { asked }
    }

    /// Lets the platform map `range`, if the limit allows it.
    fn charged(
        &self,
        range: PageRange,
        map: impl FnOnce() -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        let charge = self.lease.ledger.lock().charge(range)?;
        self.settled(&charge, map())
    }

    fn settled(&self, charge: &Charge, result: Result<(), PlatformError>) -> Result<(), PlatformError> {
        if result.is_err() {
            self.lease.ledger.lock().refund(charge);
        }
        result
    }
}

// SAFETY: the span is constant, inside that of the platform below, and by R1 no other child's. What is promised of mapped, unmapped
// and flushed pages the platform below promises, which gets every call with the caller's promises. A protection that does not allow
// writing is asked for by who made the child `Protected`, which is no `DirectMemory`. The lock is the one of the platform below.
unsafe impl<P: Divisible, A> Platform for Child<P, A> {
    type RawLock = P::RawLock;
    type PurgeLock = P::PurgeLock;

    fn geometry(&self) -> Geometry {
        self.lease.shared.platform.geometry().span(self.lease.range)
    }

    #[inline]
    fn cpu(&self) -> usize {
        self.parent().cpu()
    }

    unsafe fn map(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map(range, self.protection(protection)) })
    }

    unsafe fn map_huge(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        self.charged(range, || unsafe { self.parent().map_huge(range, self.protection(protection)) })
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().flush(ranges)? };
        for range in ranges {
            // Anew for each: a purge may have many, and others wait to map.
            self.lease.ledger.lock().clear(*range);
        }
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().zero(range) };
    }

    /// Whoever the platform calls drains the platform's own space, not this one.
    fn drain_later(&self, _: DrainReason) -> bool {
        false
    }

    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().mark_altered(range) }
    }

    fn entropy(&self) -> u64 {
        self.parent().entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.parent().fatal(damage)
    }
}

// SAFETY: mapped pages are those of the platform below, mapped readable and writable as it was asked to.
unsafe impl<P: Divisible + DirectMemory> DirectMemory for Child<P> {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl<P: Divisible + DirectMemory + Relocate> Relocate for Child<P> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        // Both count until `from` is flushed, whatever the limit: the memory is the same.
        let charge = self.lease.ledger.lock().enter(to)?;
        // SAFETY: the caller's promise is passed on.
        self.settled(&charge, unsafe { self.parent().relocate(from, to) })
    }
}

// SAFETY: frames are those of the platform below, which gets every call with the caller's promises.
unsafe impl<P: Divisible + FrameSupply, A> FrameSupply for Child<P, A> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.parent().take_frames(frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.parent().take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().give_frames(frames) };
    }

    fn origin(&self, frame: Frame) -> Origin {
        self.parent().origin(frame)
    }

    fn are_taken(&self, first: Frame, count: u64) -> bool {
        self.parent().are_taken(first, count)
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl<P: Divisible + MapFrames, A> MapFrames for Child<P, A> {
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

    unsafe fn discard_hint(&self, range: PageRange) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().discard_hint(range) };
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.parent().frame_at(page)
    }

    fn first_mapped(&self, range: PageRange) -> Option<u64> {
        self.parent().first_mapped(range)
    }
}

// SAFETY: the platform below sees to what it is asked for.
unsafe impl<P: Divisible + Protect, A> Protect for Child<P, A> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.parent().protect(range, protection) }
    }
}

impl<P: Divisible + ReadNofault, A> ReadNofault for Child<P, A> {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        self.parent().read_nofault(addr, to)
    }
}

impl<P: Divisible + Translate, A> Translate for Child<P, A> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        self.parent().physical_page(page)
    }
}
