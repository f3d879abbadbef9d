//! The machine below the space: the simulator, with a scheduling point at each call.

use crate::lock::Lock;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use vmalloc::sync::point;
use vmalloc::{
    DirectMemory, DrainReason, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform,
    PlatformError, Protection, Relocate,
};
use vmalloc_sim::Sim;

thread_local! {
    static MEMORY: *mut u8 = {
        let layout = Layout::from_size_align(MEMORY_PAGES as usize * PAGE, MEMORY_PAGES as usize * PAGE);
        let layout = layout.expect("a power of two");
        // SAFETY: not of size zero.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        memory
    };
}

/// Pages of the memory behind all machines of a thread of the system's, one after the other: as
/// many as a leaf has, and aligned to them, so that schedules repeat wherever it lies. The
/// simulator knows nothing of it; deferred frees write to it.
pub(crate) const MEMORY_PAGES: u64 = 256;
/// Bytes of a page.
pub(crate) const PAGE: usize = 1 << Sim::PAGE_SHIFT;

/// Returns the first page of that memory.
pub(crate) fn memory_start() -> u64 {
    (MEMORY.with(|memory| memory.expose_provenance()) / PAGE) as u64
}

/// Spoils the pages: a thread that reads them after they were unmapped finds no address.
fn spoil(ranges: &[PageRange]) {
    for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
        let word = std::ptr::with_exposed_provenance_mut::<usize>(page as usize * PAGE);
        // SAFETY: the page is in the span, which is never released; it is unmapped, so nothing uses
        // it rightly.
        unsafe { word.write(usize::MAX) };
    }
}

/// The simulator under the scheduler.
pub struct Machine {
    sim: Sim<Lock>,
    due: AtomicBool,
    flushing: AtomicU64,
}

impl Machine {
    pub(crate) fn new(sim: Sim<Lock>) -> Self {
        let (due, flushing) = Default::default();
        Self { sim, due, flushing }
    }

    /// Returns the simulator.
    pub fn sim(&self) -> &Sim<Lock> {
        &self.sim
    }

    /// Returns the pages of the flush under way.
    pub fn flushing(&self) -> u64 {
        self.flushing.load(Relaxed)
    }

    /// Returns whether a drain was asked for since the last call.
    pub fn take_due(&self) -> bool {
        self.due.swap(false, Relaxed)
    }
}

// SAFETY: as the simulator's, whose calls these are.
unsafe impl Platform for Machine {
    type RawLock = Lock;
    type PurgeLock = Lock;
    type Context = ();

    fn geometry(&self) -> Geometry {
        let below = self.sim.geometry();
        Geometry::new(below.span, below.page_shift, below.cpus).remaps_atomically(below.remaps_atomically)
    }

    fn cpu(&self) -> usize {
        self.sim.cpu()
    }

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        point();
        // SAFETY: the caller's promise.
        unsafe { self.sim.map(range, protection, ()) }
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        point();
        spoil(ranges);
        // SAFETY: the caller's promise.
        unsafe { self.sim.unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.flushing.store(ranges.iter().map(PageRange::len).sum(), Relaxed);
        point();
        // SAFETY: the caller's promise.
        let result = unsafe { self.sim.flush(ranges) };
        point();
        self.flushing.store(0, Relaxed);
        result
    }

    unsafe fn zero(&self, range: PageRange) {
        point();
        // SAFETY: the caller's promise.
        unsafe { self.sim.zero(range) }
    }

    fn drain_later(&self, due: DrainReason) -> bool {
        let promised = self.sim.drain_later(due);
        self.due.store(promised, Relaxed);
        promised
    }

    fn wake_drain(&self) -> bool {
        self.drain_later(DrainReason::Threshold)
    }

    fn entropy(&self) -> u64 {
        self.sim.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.sim.fatal(damage)
    }
}

// SAFETY: the span is memory of this program, which is never released, at its own addresses. No
// scenario sees that it is not zeroed.
unsafe impl DirectMemory for Machine {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl Relocate for Machine {}

// SAFETY: as for `Platform`.
unsafe impl FrameSupply for Machine {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.sim.take_frames(frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.sim.take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        point();
        // SAFETY: the caller's promise.
        unsafe { self.sim.give_frames(frames) };
    }

    fn origin(&self, frame: Frame) -> Origin {
        self.sim.origin(frame)
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl MapFrames for Machine {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        point();
        // SAFETY: the caller's promise.
        unsafe { self.sim.map_frames(range, frames, protection) }
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        point();
        // SAFETY: the caller's promise.
        unsafe { self.sim.discard_hint(range) };
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.sim.frame_at(page)
    }
}
