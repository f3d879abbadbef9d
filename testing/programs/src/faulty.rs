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

/// Methods that the platform `$below` answers, unless `$fails` returns an error before. It gets the
/// caller's promises with them.
macro_rules! pass_on {
    (
        $self:ident => $below:expr;
        $(fn $name:ident($($arg:ident: $of:ty),*) -> $result:ty $(, $fails:expr)?;)*
        $(unsafe fn $call:ident($($with:ident: $kind:ty),*) $(-> $answer:ty)? $(, $refused:expr)?;)*
    ) => {
        $(fn $name(&$self, $($arg: $of),*) -> $result {
            $($fails?;)?
            $below.$name($($arg),*)
        })*

        $(unsafe fn $call(&$self, $($with: $kind),*) $(-> $answer)? {
            $($refused?;)?
            // SAFETY: the caller's promises are those asked for.
            unsafe { $below.$call($($with),*) }
        })*
    };
}

// SAFETY: the platform below keeps the promises; it lends this one nothing.
unsafe impl<P: Platform> Extras for Faulty<P> {
    pass_on! {
        self => self.inner.extras();
        fn evict_memory(part: Evict) -> bool;
        unsafe fn resident(range: PageRange) -> u64;
        unsafe fn make_huge(range: PageRange);
        unsafe fn mark_altered(range: PageRange) -> Result<(), PlatformError>;
        unsafe fn unmap_now(range: PageRange, tag: Option<&str>) -> Result<(), PlatformError>,
            self.pass(Point::UnmapNow);
    }
}

// SAFETY: mapped pages are those of the platform below.
unsafe impl<P: DirectMemory> DirectMemory for Faulty<P> {}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Relocate> Relocate for Faulty<P> {
    pass_on! {
        self => self.inner;
        unsafe fn relocate(from: PageRange, to: PageRange) -> Result<(), PlatformError>,
            self.pass(Point::Relocate);
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Discard> Discard for Faulty<P> {
    pass_on! {
        self => self.inner;
        unsafe fn discard(ranges: &[PageRange]) -> Result<(), PlatformError>, self.pass(Point::Discard);
        unsafe fn touched(range: PageRange, found: &mut dyn FnMut(PageRange));
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: Protect> Protect for Faulty<P> {
    pass_on! {
        self => self.inner;
        unsafe fn protect(range: PageRange, protection: Protection) -> Result<(), PlatformError>,
            self.pass(Point::Protect);
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: FrameSupply> FrameSupply for Faulty<P> {
    pass_on! {
        self => self.inner;
        fn take_frames(frames: &mut [Frame]) -> Result<(), PlatformError>, self.pass(Point::TakeFrames);
        fn take_run(count: u64, align: u64) -> Result<Frame, PlatformError>, self.pass(Point::TakeRun);
        fn origin(frame: Frame) -> Origin;
        fn are_taken(first: Frame, count: u64) -> bool;
        unsafe fn give_frames(frames: &[Frame]);
    }
}

// SAFETY: the platform below keeps the promises.
unsafe impl<P: MapFrames> MapFrames for Faulty<P> {
    pass_on! {
        self => self.inner;
        fn runs_of(frames: &[Frame]) -> Option<Vec<FrameRun>>;
        fn order_of(runs: &[FrameRun]) -> u32;
        fn frame_at(page: u64) -> Option<Frame>;
        unsafe fn map_frames(range: PageRange, frames: &[Frame], protection: Protection)
            -> Result<(), PlatformError>, self.pass(Point::MapFrames);
        unsafe fn map_runs(range: PageRange, runs: &[FrameRun], protection: Protection)
            -> Result<(), PlatformError>, self.pass(Point::MapFrames);
        unsafe fn discard_hint(range: PageRange);
    }
}

impl<P: ReadNofault> ReadNofault for Faulty<P> {
    pass_on! {
        self => self.inner;
        fn read_nofault(addr: usize, to: &mut [u8]) -> usize;
    }
}

impl<P: Translate> Translate for Faulty<P> {
    pass_on! {
        self => self.inner;
        fn physical_page(page: u64) -> Option<u64>;
    }
}
