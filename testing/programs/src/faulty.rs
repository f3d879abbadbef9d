//! A platform whose calls fail on request, before they reach the platform below.

use crate::look::Look;
use crate::narrow::Narrow;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vmalloc::{
    DirectMemory, Discard, DrainReason, Evict, Extras, Frame, FrameRun, FrameSupply, Geometry, MapFrames,
    Origin, PageRange, Platform, PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate,
    Translate,
};
use vmalloc_model::Seeded;
use vmalloc_sim::{Injected, Plan, Point};

/// Pages of a range that are made dirty: the first ones, and the last.
const USED: u64 = 16;

/// The word that fills new pages where [`Narrow::dirty`] is set.
const DIRT: u64 = 0xd1d1_d1d1_d1d1_d1d1;

/// Wraps a platform. Every call reaches it, but the ones that were made to fail, and the powers
/// that were hidden. The CPU is the one that [`Below`](crate::Below) has chosen, and entropy comes
/// from a seed, so that a program repeats.
pub struct Faulty<P> {
    inner: P,
    look: Arc<dyn Look<P>>,
    narrow: Narrow,
    plan: Mutex<Plan>,
    cpu: AtomicUsize,
    entropy: AtomicU64,
}

impl<P: Platform> Faulty<P> {
    /// Returns `inner` without the powers that `narrow` hides; its memory is seen through `look`.
    pub fn new(inner: P, look: Arc<dyn Look<P>>, narrow: Narrow) -> Self {
        let (plan, entropy) = Default::default();
        let cpu = AtomicUsize::new(inner.cpu());
        Self { inner, look, narrow, plan, cpu, entropy }
    }

    /// Returns the platform below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Returns the look at the platform below.
    pub fn look(&self) -> &dyn Look<P> {
        &*self.look
    }

    /// Returns which calls are to fail, and how many have.
    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no call panics meanwhile")
    }

    /// Makes the calling thread go on on `cpu`, as far as the space above can tell.
    pub(crate) fn run_on(&self, cpu: usize) {
        self.look.run_on(&self.inner, cpu);
        // Relaxed: a hint that orders nothing.
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    fn pass(&self, point: Point) -> Result<(), PlatformError> {
        let error = PlatformError { call: "a call made to fail", fault: PlatformFault::OutOfMemory, code: 0 };
        self.plan().pass(point).map_err(|Injected| error)
    }

    /// Makes new pages that programs look at dirty, if they are to be.
    fn soil(&self, range: PageRange, protection: Protection) {
        if self.narrow.dirty && protection == Protection::ReadWrite {
            let cpu = self.inner.cpu();
            let (first_end, last) = (range.end().min(range.start() + USED), range.end() - 1);
            let pages = (range.start()..first_end).chain((last >= first_end).then_some(last));
            pages.for_each(|page| self.look.fill(&self.inner, cpu, page, DIRT));
        }
    }
}

// SAFETY: the platform below keeps the promises, and gets every call with the caller's promises. A
// call that fails does nothing, or unmaps a range that its caller wants unmapped. Dirty pages are
// the caller's, and not said to be zero.
unsafe impl<P: Platform> Platform for Faulty<P> {
    type RawLock = P::RawLock;
    type PurgeLock = P::PurgeLock;
    type Context = P::Context;

    const PAGE_SHIFT: Option<u32> = P::PAGE_SHIFT;

    fn geometry(&self) -> Geometry {
        self.narrow.geometry(self.inner.geometry())
    }

    fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    unsafe fn map(
        &self,
        range: PageRange,
        protection: Protection,
        context: P::Context,
    ) -> Result<(), PlatformError> {
        self.pass(Point::Map)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.map(range, protection, context)? };
        self.soil(range, protection);
        Ok(())
    }

    unsafe fn map_huge(
        &self,
        range: PageRange,
        protection: Protection,
        context: P::Context,
    ) -> Result<(), PlatformError> {
        self.pass(Point::MapHuge)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.map_huge(range, protection, context)? };
        self.soil(range, protection);
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if let Err(error) = self.pass(Point::Unmap) {
            // SAFETY: the caller's promises are those asked for, for a part of the ranges.
            return unsafe { self.inner.unmap(&ranges[..1]) }.and(Err(error));
        }
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.pass(Point::Flush)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.flush(ranges) }
    }

    unsafe fn zero(&self, range: PageRange) {
        if !self.look.zero(&self.inner, range) {
            // SAFETY: the caller's promises are those asked for.
            unsafe { self.inner.zero(range) };
        }
    }

    /// Returns false: the platform below would drain a space that it does not know.
    fn drain_later(&self, _: DrainReason) -> bool {
        false
    }

    fn init_purge_lock(&self, lock: &P::PurgeLock) -> bool {
        self.inner.init_purge_lock(lock)
    }

    fn entropy(&self) -> u64 {
        let nth = self.entropy.fetch_add(1, Ordering::Relaxed);
        Seeded::new(nth).next_u64()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("fatal: {damage}")
    }
}

// SAFETY: the platform below keeps the promises; it lends this one nothing.
unsafe impl<P: Platform> Extras for Faulty<P> {
    unsafe fn resident(&self, range: PageRange) -> u64 {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.extras().resident(range) }
    }

    unsafe fn make_huge(&self, range: PageRange) {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.extras().make_huge(range) }
    }

    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        self.pass(Point::UnmapNow)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.extras().unmap_now(range, tag) }
    }

    fn evict_memory(&self, part: Evict) -> bool {
        self.inner.extras().evict_memory(part)
    }

    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.extras().mark_altered(range) }
    }
}

// SAFETY: mapped pages are those of the platform below.
unsafe impl<P: DirectMemory> DirectMemory for Faulty<P> {}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Relocate> Relocate for Faulty<P> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.pass(Point::Relocate)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.relocate(from, to) }
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Discard> Discard for Faulty<P> {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.pass(Point::Discard)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.discard(ranges) }
    }

    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.touched(range, found) }
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Protect> Protect for Faulty<P> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.pass(Point::Protect)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.protect(range, protection) }
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: FrameSupply> FrameSupply for Faulty<P> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.pass(Point::TakeFrames)?;
        self.inner.take_frames(frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.pass(Point::TakeRun)?;
        self.inner.take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.give_frames(frames) };
    }

    fn origin(&self, frame: Frame) -> Origin {
        self.inner.origin(frame)
    }

    fn are_taken(&self, first: Frame, count: u64) -> bool {
        self.inner.are_taken(first, count)
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: MapFrames> MapFrames for Faulty<P> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.pass(Point::MapFrames)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.map_frames(range, frames, protection) }
    }

    unsafe fn map_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.pass(Point::MapFrames)?;
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.map_runs(range, runs, protection) }
    }

    fn runs_of(&self, frames: &[Frame]) -> Option<Vec<FrameRun>> {
        self.inner.runs_of(frames)
    }

    fn order_of(&self, runs: &[FrameRun]) -> u32 {
        self.inner.order_of(runs)
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.discard_hint(range) };
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.inner.frame_at(page)
    }
}

impl<P: ReadNofault> ReadNofault for Faulty<P> {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        self.inner.read_nofault(addr, to)
    }
}

impl<P: Translate> Translate for Faulty<P> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        self.inner.physical_page(page)
    }
}
