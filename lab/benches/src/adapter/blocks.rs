//! Slots of blocks: addresses for short mappings.

use super::house::House;
use crate::ranges::{Plan, Ranges};
use vmalloc::Config;
use vmalloc_kit::null::PAGE_SHIFT;

/// Slots of a block in W8.
const SLOTS: u64 = 1024;

/// `block_alloc` and `block_free`, drained as the space is.
pub struct Blocks<H>(H);

impl<H: House> Ranges for Blocks<H> {
    /// With its pages, which the caller has to know.
    type Handle = (usize, u64);
    const NAME: &'static str = "vmalloc blocks";
    const ALIGNS: bool = false;

    fn build(_plan: &Plan) -> Self {
        Self(H::open(Config::default().block_slots(SLOTS)))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, _align: u64) -> (usize, u64) {
        (self.0.raw().reserve_short(pages).expect("space for every workload"), pages)
    }

    #[inline]
    fn free(&mut self, (addr, pages): (usize, u64)) {
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.0.raw().unreserve_short(addr, pages) }.expect("a live mapping");
    }

    fn start((addr, _): (usize, u64)) -> u64 {
        addr as u64 >> PAGE_SHIFT
    }

    fn settle(&mut self) {
        self.0.purge().expect("this platform refuses nothing");
    }

    fn own_metadata_bytes(&self) -> Option<usize> {
        Some(self.0.stats().metadata_bytes as usize)
    }
}
