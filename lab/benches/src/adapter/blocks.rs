//! Slots of blocks: addresses for short mappings.

use super::house::House;
use crate::ranges::{Plan, Ranges};
use stable_deref_trait::StableDeref;
use std::ops::Deref;
use vmalloc::{Space, SpaceOptions};
use vmalloc_kit::null::PAGE_SHIFT;
use vmalloc_short::ShortMaps;

/// Slots of a block in W8.
const SLOTS: u64 = 1024;

/// A house at a fixed place.
struct Lot<H>(Box<H>);

impl<H: House> Deref for Lot<H> {
    type Target = Space<H::Platform>;
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: the space is in the house, or behind a pointer of it, and the house stays in its box.
unsafe impl<H: House> StableDeref for Lot<H> {}

/// `block_alloc` and `block_free`, drained as the space is.
pub struct Blocks<H: House>(ShortMaps<Lot<H>>);

impl<H: House> Ranges for Blocks<H> {
    /// With its pages, which the caller has to know.
    type Handle = (usize, u64);
    const NAME: &'static str = "vmalloc blocks";
    const ALIGNS: bool = false;

    fn build(_plan: &Plan) -> Self {
        let lot = Lot(Box::new(H::open(SpaceOptions::default())));
        Self(ShortMaps::with_block_slots(lot, SLOTS).expect("memory for their records"))
    }

    #[inline]
    fn allocate(&mut self, pages: u64, _align: u64) -> (usize, u64) {
        (self.0.reserve(pages).expect("space for every workload"), pages)
    }

    #[inline]
    fn free(&mut self, (addr, pages): (usize, u64)) {
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.0.unreserve(addr, pages) }.expect("a live mapping");
    }

    fn start((addr, _): (usize, u64)) -> u64 {
        addr as u64 >> PAGE_SHIFT
    }

    fn settle(&mut self) {
        self.0.space().purge().expect("this platform refuses nothing");
    }

    fn own_metadata_bytes(&self) -> Option<usize> {
        Some(self.0.space().stats().metadata_bytes as usize)
    }
}
