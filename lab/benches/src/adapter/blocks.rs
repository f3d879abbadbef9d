//! Slots of blocks: addresses for short mappings.

use super::house::House;
use super::null::PAGE_SHIFT;
use crate::ranges::{Plan, Ranges};
use core::marker::PhantomData;
use vmalloc::Config;
use vmalloc::block::BlockPolicy;

/// Slots of a block in W8.
const SLOTS: u64 = 1024;

/// What becomes of returned slots.
pub trait Slots {
    /// The policy.
    const POLICY: BlockPolicy;
    /// How tables name blocks with it.
    const NAME: &'static str;
}

/// They are handed out again after a flush.
#[derive(Debug)]
pub struct Recycled;

impl Slots for Recycled {
    const POLICY: BlockPolicy = BlockPolicy::Recycle;
    const NAME: &'static str = "vmalloc blocks";
}

/// A block is freed when all of them are returned; new ones go to the tail of the queue.
#[derive(Debug)]
pub struct ClassicTail;

impl Slots for ClassicTail {
    const POLICY: BlockPolicy = BlockPolicy::ClassicTail;
    const NAME: &'static str = "vmalloc blocks, classic tail";
}

/// `block_alloc` and `block_free`, drained as the space is.
pub struct Blocks<S, H>(H, PhantomData<S>);

impl<S: Slots, H: House> Ranges for Blocks<S, H> {
    /// With its pages, which the caller has to know.
    type Handle = (usize, u64);
    const NAME: &'static str = S::NAME;
    const ALIGNS: bool = false;

    fn build(_plan: &Plan) -> Self {
        Self(H::open(Config::default().blocks(SLOTS, S::POLICY)), PhantomData)
    }

    #[inline]
    fn allocate(&mut self, pages: u64, _align: u64) -> (usize, u64) {
        (self.0.block_alloc(pages).expect("space for every workload"), pages)
    }

    #[inline]
    fn free(&mut self, (addr, pages): (usize, u64)) {
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.0.block_free(addr, pages) }.expect("a live mapping");
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
