//! This project's two layers: the area map, and the space over a platform that does nothing.

use super::house::House;
use crate::ranges::{Plan, Ranges, span};
use vmalloc::{AreaMap, Fit, Request, SpaceOptions};
use vmalloc_kit::null::PAGE_SHIFT;

/// The area map: exact lowest fit, nothing lazy, no lock.
pub struct Map(AreaMap<'static>);

impl Ranges for Map {
    type Handle = u64;
    const NAME: &'static str = "vmalloc AreaMap";
    const ALIGNS: bool = true;
    const FINDS: bool = true;
    const NEARS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self(AreaMap::new(span()).expect("metadata for an empty map"))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, align: u64) -> u64 {
        let fit = Fit::new(pages).align(align);
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

    #[inline]
    fn bounce_near(&mut self, page: u64) {
        let area = self.0.alloc(&Fit::new(1).near(page)).expect("space for every workload");
        self.0.free(area.start()).expect("a live area");
    }

    fn own_metadata_bytes(&self) -> Option<usize> {
        Some(self.0.metadata_bytes())
    }
}

/// The whole space: locks, reuse of areas that kept their pages if `RETAIN` (as many as is the
/// default), or else lazy free and purge, by the callers or a thread. If `ODD`, a request is some
/// bytes smaller than its pages.
pub struct OurSpace<const RETAIN: bool, H, const ODD: bool = false>(H);

/// Bytes that a request of an odd size lacks to whole pages.
const LACKING: u64 = 1237;

impl<const RETAIN: bool, H: House, const ODD: bool> Ranges for OurSpace<RETAIN, H, ODD> {
    type Handle = usize;
    const NAME: &'static str = if RETAIN { H::NAMES[0] } else { H::NAMES[1] };
    const ALIGNS: bool = true;
    const FINDS: bool = true;
    const GUARDS: bool = true;

    fn build(plan: &Plan) -> Self {
        let options = if RETAIN { SpaceOptions::default() } else { SpaceOptions::default().unmap_on_free() };
        Self(H::open(if plan.guard { options } else { options.guard(false) }))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, align: u64) -> usize {
        let bytes = (pages << PAGE_SHIFT) - if ODD { LACKING } else { 0 };
        let request = Request::new(bytes as usize).align((align << PAGE_SHIFT) as usize);
        self.0.raw().alloc(&request).expect("space for every workload")
    }

    #[inline]
    fn free(&mut self, addr: usize) {
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.0.raw().free(addr) }.expect("a live area");
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
