//! Platforms that make a mistake, each of a kind that ports make.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::{
    DirectMemory, Discard, Extras, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform,
    PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate, Translate,
};

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    /// A call of this name that does nothing.
    Nothing(&'static str),
    /// One that treats so many pages more of each range.
    Longer(&'static str, i64),
    ZeroFirstPage,
    SpanFromZero,
    ChangingGeometry,
    CpuTooHigh,
    RefusalLeavesPages,
    UnmapFirstRange,
    UnmapTwicePanics,
    RelocateLoses,
    TouchedInPart,
    ReadTooMuch,
    OnePhysicalPage,
    FramesTwice,
    RunUnaligned,
    WildFrames,
    FramesReversed,
    FrameAtOff,
    LinearOff,
    RemapNothing,
}

/// A platform that makes one mistake, and else does what the platform below does.
pub(crate) struct Wrong<P> {
    pub(crate) inner: P,
    pub(crate) mistake: Mistake,
    calls: AtomicU64,
}

impl<P> Wrong<P> {
    pub(crate) fn new(inner: P, mistake: Mistake) -> Self {
        Self { inner, mistake, calls: AtomicU64::new(0) }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    /// Returns the pages of a call's range that it treats, if it is made.
    fn treated(&self, call: &str, range: PageRange) -> Option<PageRange> {
        match self.mistake {
            Mistake::Nothing(wrong) if wrong == call => None,
            Mistake::Longer(wrong, by) if wrong == call => Some(longer(range, by)),
            Mistake::ZeroFirstPage if call == "zero" => Some(longer(range, 1 - range.len() as i64)),
            _ => Some(range),
        }
    }
}

/// Returns `range` with one page more, or less.
fn longer(range: PageRange, by: i64) -> PageRange {
    PageRange::from_len(range.start(), range.len().saturating_add_signed(by)).unwrap_or(range)
}

// SAFETY: none: the promises are broken on purpose. The tests look at memory only through the
// simulator, or in a block of the heap that is theirs.
unsafe impl<P: Platform> Platform for Wrong<P> {
    type RawLock = P::RawLock;
    type PurgeLock = P::PurgeLock;
    type Context = P::Context;

    fn geometry(&self) -> Geometry {
        let geometry = self.inner.geometry();
        let nth = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.mistake {
            Mistake::SpanFromZero => geometry.span(PageRange::new(0, 1 << 11).expect("not empty")),
            Mistake::ChangingGeometry if nth > 20 => geometry.maps_zeroed(!geometry.maps_zeroed),
            Mistake::LinearOff => {
                let off = |range: PageRange| PageRange::from_len(range.start() + 1, range.len());
                geometry.linear_map(geometry.linear_map.and_then(off))
            }
            _ => geometry,
        }
    }

    fn cpu(&self) -> usize {
        if self.makes(Mistake::CpuTooHigh) { self.inner.geometry().cpus } else { self.inner.cpu() }
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
        let Some(mapped) = self.treated("map", range) else { return Ok(()) };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.map(mapped, protection, context)? };
        if self.makes(Mistake::RefusalLeavesPages) && range.len() > 1000 {
            return Err(PlatformError { call: "map", fault: PlatformFault::OutOfMemory, code: 1 });
        }
        Ok(())
    }

    unsafe fn map_huge(
        &self,
        range: PageRange,
        protection: Protection,
        context: P::Context,
    ) -> Result<(), PlatformError> {
        let Some(mapped) = self.treated("map_huge", range) else { return Ok(()) };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.map_huge(mapped, protection, context) }
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let ranges = if self.makes(Mistake::UnmapFirstRange) { &ranges[..1] } else { ranges };
        let span = self.inner.geometry().span;
        let treated = ranges.iter().filter_map(|range| self.treated("unmap", *range)?.intersection(&span));
        let ranges: Vec<_> = treated.collect();
        if self.makes(Mistake::UnmapTwicePanics) {
            assert!(self.calls.fetch_xor(1 << 40, Ordering::Relaxed) >> 40 == 0, "unmapped twice");
        }
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.unmap(&ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let Some(_) = self.treated("flush", ranges[0]) else { return Ok(()) };
        if self.makes(Mistake::UnmapTwicePanics) {
            self.calls.fetch_and(!(1 << 40), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.flush(ranges) }
    }

    unsafe fn zero(&self, range: PageRange) {
        let Some(range) = self.treated("zero", range) else { return };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.zero(range) };
    }

    fn init_purge_lock(&self, lock: &P::PurgeLock) -> bool {
        self.inner.init_purge_lock(lock)
    }

    fn entropy(&self) -> u64 {
        self.inner.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

// SAFETY: none: the promise is broken on purpose.
unsafe impl<P: Platform> Extras for Wrong<P> {
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        let Some(range) = self.treated("unmap_now", range) else { return Ok(()) };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.extras().unmap_now(range, tag) }
    }
}

// SAFETY: the block of the heap below stays where it is.
unsafe impl<P: DirectMemory> DirectMemory for Wrong<P> {}

// SAFETY: none: a promise is broken on purpose.
unsafe impl<P: Relocate> Relocate for Wrong<P> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.relocate(from, to)? };
        if self.makes(Mistake::RelocateLoses) {
            // SAFETY: the caller owns the range, which is mapped now.
            unsafe { self.inner.zero(to) };
        }
        Ok(())
    }
}

// SAFETY: none: a promise is broken on purpose.
unsafe impl<P: Discard> Discard for Wrong<P> {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let ranges: Vec<_> = match ranges {
            [only] => self.treated("discard", *only).into_iter().collect(),
            several => several.iter().filter(|_| !self.makes(Mistake::Nothing("discard"))).copied().collect(),
        };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.discard(&ranges) }
    }

    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        let end = range.end() - if self.makes(Mistake::TouchedInPart) { range.len() / 2 } else { 0 };
        // SAFETY: the caller owns the range, and part of it.
        unsafe { self.inner.touched(PageRange::new(range.start(), end).unwrap_or(range), found) }
    }
}

// SAFETY: none: a promise is broken on purpose.
unsafe impl<P: Protect> Protect for Wrong<P> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        let Some(range) = self.treated("protect", range) else { return Ok(()) };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.protect(range, protection) }
    }
}

impl<P: ReadNofault> ReadNofault for Wrong<P> {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        let copied = self.inner.read_nofault(addr, to);
        if self.makes(Mistake::ReadTooMuch) { to.len() } else { copied }
    }
}

impl<P: Translate> Translate for Wrong<P> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        self.inner
            .physical_page(page)
            .map(|frame| if self.makes(Mistake::OnePhysicalPage) { 7 } else { frame })
    }
}

// SAFETY: none: promises are broken on purpose.
unsafe impl<P: FrameSupply> FrameSupply for Wrong<P> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.inner.take_frames(frames)?;
        if self.makes(Mistake::FramesTwice) && frames.len() > 1 {
            frames[1] = frames[0];
        }
        Ok(())
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        if self.makes(Mistake::RunUnaligned) && align > 1 {
            return self.inner.take_run(count + 1, align).map(|first| first.plus(1));
        }
        self.inner.take_run(count, align)
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.inner.give_frames(frames) };
    }

    fn origin(&self, frame: Frame) -> Origin {
        if self.makes(Mistake::WildFrames) { Origin::Supply } else { self.inner.origin(frame) }
    }
}

// SAFETY: none: promises are broken on purpose.
unsafe impl<P: MapFrames> MapFrames for Wrong<P> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let mut frames = frames.to_vec();
        if self.makes(Mistake::FramesReversed) {
            frames.reverse();
        }
        if self.makes(Mistake::RemapNothing)
            && (range.start()..range.end()).any(|page| self.inner.frame_at(page).is_some())
        {
            return Ok(());
        }
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.map_frames(range, &frames, protection) }
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        let Some(range) = self.treated("discard_hint", range) else { return };
        // SAFETY: the mistake that is wanted, on a simulated machine.
        unsafe { self.inner.discard_hint(range) };
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        let frame = self.inner.frame_at(page);
        if self.makes(Mistake::FrameAtOff) { frame.map(|frame| frame.plus(1)) } else { frame }
    }
}
