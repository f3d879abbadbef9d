//! This project's two layers: the area map, and the space over a platform that does nothing.

use crate::ranges::{BASE_PAGE, Plan, Ranges, SPACE_PAGES};
use core::fmt;
use vmalloc::{AreaMap, Config, Fit, PageRange, Platform, PlatformError, Protection, Request, Space};

const PAGE_SHIFT: u32 = 12;

fn span() -> PageRange {
    PageRange::from_len(BASE_PAGE, SPACE_PAGES).expect("the space is not empty")
}

/// The area map: exact lowest fit, nothing lazy, no lock.
pub struct Map(AreaMap);

impl Ranges for Map {
    type Handle = u64;
    const NAME: &'static str = "vmalloc AreaMap";
    const ALIGNS: bool = true;
    const FINDS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self(AreaMap::new(span()).expect("metadata for an empty map"))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, align: u64) -> u64 {
        let fit = Fit::new(pages).and_then(|fit| fit.align(align)).expect("a valid request");
        self.0.alloc(&fit).expect("space for every workload").start()
    }

    #[inline]
    fn free(&mut self, start: u64) {
        self.0.free(start).expect("a live area");
    }

    fn start(start: u64) -> u64 {
        start
    }

    #[inline]
    fn find(&self, page: u64) -> Option<u64> {
        self.0.find(page).map(|range| range.start())
    }

    fn own_metadata_bytes(&self) -> Option<usize> {
        Some(self.0.metadata_bytes())
    }
}

/// A platform with a real lock under which no memory is: what is left is the address part.
#[derive(Debug)]
pub struct NullPlatform;

// SAFETY: the span is constant and nothing else uses it, for nothing is ever mapped there; no byte of it is
// promised to be memory (`DirectMemory` is not implemented); `parking_lot` excludes.
unsafe impl Platform for NullPlatform {
    type RawLock = parking_lot::RawMutex;

    fn span(&self) -> PageRange {
        span()
    }

    fn page_shift(&self) -> u32 {
        PAGE_SHIFT
    }

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        2
    }

    unsafe fn map(&self, _range: PageRange, _protection: Protection) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn unmap(&self, _ranges: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn flush(&self, _ranges: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn zero(&self, _range: PageRange) {}

    /// Constant, so that instruction counts repeat exactly.
    fn entropy(&self) -> u64 {
        0x5eed
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

/// The whole space: locks, reuse of areas that kept their pages if `RETAIN` (64 MiB of them, the default), or
/// else lazy free and purge.
pub struct OurSpace<const RETAIN: bool>(Space<NullPlatform>);

impl<const RETAIN: bool> Ranges for OurSpace<RETAIN> {
    type Handle = usize;
    const NAME: &'static str = if RETAIN { "vmalloc Space" } else { "vmalloc Space, unmap" };
    const ALIGNS: bool = true;
    const FINDS: bool = true;
    const GUARDS: bool = true;

    fn build(plan: &Plan) -> Self {
        let config = if RETAIN { Config::default() } else { Config::default().unmap_on_free() };
        let config = if plan.guard { config } else { config.without_guards() };
        Self(Space::new(NullPlatform, config).expect("metadata for an empty space"))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, align: u64) -> usize {
        let request = Request::new((pages << PAGE_SHIFT) as usize).align((align << PAGE_SHIFT) as usize);
        self.0.alloc(&request).expect("space for every workload")
    }

    #[inline]
    fn free(&mut self, addr: usize) {
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.0.vfree(addr) }.expect("a live area");
    }

    fn start(addr: usize) -> u64 {
        addr as u64 >> PAGE_SHIFT
    }

    #[inline]
    fn find(&self, page: u64) -> Option<u64> {
        self.0.find((page << PAGE_SHIFT) as usize).map(|area| area.addr as u64 >> PAGE_SHIFT)
    }

    fn settle(&mut self) {
        self.0.purge().expect("this platform refuses nothing");
    }

    fn own_metadata_bytes(&self) -> Option<usize> {
        Some(self.0.stats().metadata_bytes as usize)
    }
}
