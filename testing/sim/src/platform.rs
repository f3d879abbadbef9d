//! The machine as the allocator sees it.

use crate::heap::SpaceLock;
use crate::sim::Sim;
use lock_api::RawMutex;
use std::fmt;
use vmalloc::{
    Discard, DrainReason, Extras, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform,
    PlatformError, Protect, Protection, ReadNofault, Translate,
};

// SAFETY: the span is constant. Nothing is ever reachable through it but by `read` and `write`,
// which endanger no memory in danger, and this type is no `DirectMemory`. The lock excludes as the
// caller's choice of `L` does.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Platform for Sim<L> {
    type RawLock = SpaceLock<L>;
    type PurgeLock = L;
    type Context = ();

    fn geometry(&self) -> Geometry {
        let options = &self.options;
        Geometry::new(options.span, Sim::PAGE_SHIFT, options.cpus)
            .huge_order(options.huge_order)
            .maps_zeroed(!options.is_dirty)
            .memory_cost(options.memory_cost)
            .max_slack_percent(options.max_slack_percent)
            .remaps_atomically(options.replaces)
            .linear_map(options.linear_pages())
    }

    fn cpu(&self) -> usize {
        self.here()
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| {
            let mapped = machine.map(range, protection);
            machine.catch_up(cpu);
            mapped
        })
    }

    unsafe fn map_huge(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        self.step(|machine| machine.map_huge(range, protection))
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.unmap(cpu, ranges))
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.flush(cpu, ranges))
    }

    unsafe fn zero(&self, range: PageRange) {
        let cpu = self.here();
        self.step(|machine| machine.zero(cpu, range));
    }

    fn drain_later(&self, due: DrainReason) -> bool {
        self.step(|machine| match due {
            DrainReason::Age => machine.counts.drains_by_age += 1,
            _ => machine.counts.drains += 1,
        });
        self.options.promises_drains
    }

    fn entropy(&self) -> u64 {
        self.step(|machine| machine.entropy())
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("fatal: {damage}")
    }
}

impl<L: RawMutex + Send + Sync + 'static> Translate for Sim<L> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        self.step(|machine| machine.frame(page))
    }
}
// SAFETY: a frame has one holder, and a page of the page table one frame, which holds the one word
// that all pages that lead to it show. The linear map is constant, and a frame of the supply can be
// used there as long as it is taken.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> FrameSupply for Sim<L> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.step(|machine| machine.take_frames(frames))
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.step(|machine| machine.take_run(count, align))
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        self.step(|machine| machine.give_frames(frames));
    }

    fn origin(&self, frame: Frame) -> Origin {
        self.step(|machine| machine.origin(frame))
    }
}

// SAFETY: the machine flushes what it unmaps at once; it lends nothing.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Extras for Sim<L> {
    unsafe fn unmap_now(&self, range: PageRange, _: Option<&str>) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.unmap_now(cpu, range))
    }
}

// SAFETY: see `FrameSupply`.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> MapFrames for Sim<L> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.map_frames(cpu, range, frames, protection))
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        let cpu = self.here();
        self.step(|machine| machine.discard_hint(cpu, range));
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.step(|machine| machine.frame_at(page))
    }
}

// SAFETY: every entry of the page table and of the TLBs has its protection, which `read` and
// `write` keep.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Protect for Sim<L> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.protect(cpu, range, protection))
    }
}

// SAFETY: each page's word is zero then, on every CPU; every page is reported as used.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Discard for Sim<L> {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.discard(cpu, ranges))
    }
}

/// A page has one word, and all its bytes are that word's, lowest first, over and over.
impl<L: RawMutex + Send + Sync + 'static> ReadNofault for Sim<L> {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        let (cpu, mut copied) = (self.here(), 0);
        while copied < to.len() {
            let Some(at) = addr.checked_add(copied) else { break };
            let page = (at >> Sim::PAGE_SHIFT) as u64;
            let Some(word) = self.step(|machine| machine.read_nofault(cpu, page)) else { break };
            let left_of_page = (1 << Sim::PAGE_SHIFT) - at % (1 << Sim::PAGE_SHIFT);
            let end = to.len().min(copied + left_of_page);
            let bytes = (at..).map(|at| word.to_le_bytes()[at % 8]);
            to[copied..end].iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            copied = end;
        }
        copied
    }
}
