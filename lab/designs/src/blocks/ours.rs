//! The product's blocks: slots that have been returned are handed out again after a flush.

use super::{Blocks, Counts};
use crate::design::{PAGE_SHIFT, Refusal, Setup};
use crate::designs::{self, Addresses};
use vmalloc::{AllocError, Space, SpaceOptions};
use vmalloc_short::ShortMaps;

/// The product's short mappings, for their blocks.
pub(super) struct Ours(ShortMaps<Box<Space<Addresses>>>);

impl Ours {
    pub(super) fn new(setup: &Setup, slots: u64) -> Self {
        let space = Box::new(designs::space(setup, SpaceOptions::default()));
        Self(ShortMaps::with_block_slots(space, slots).expect("memory for their records"))
    }
}

impl Blocks for Ours {
    fn map(&self, pages: u64) -> Result<u64, Refusal> {
        if pages > super::MAX_PAGES {
            return Err(Refusal::Bad);
        }
        match self.0.reserve(pages) {
            Ok(addr) => Ok(addr as u64 >> PAGE_SHIFT),
            Err(AllocError::Request(_)) => Err(Refusal::Bad),
            Err(_) => Err(Refusal::NoSpace),
        }
    }

    fn unmap(&self, start: u64, pages: u64) -> Result<(), Refusal> {
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.0.unreserve((start << PAGE_SHIFT) as usize, pages) }.map_err(|_| Refusal::NotAnArea)
    }

    fn counts(&self) -> Counts {
        let counts = self.0.counts();
        Counts { made: counts.made, freed: counts.freed, walked: 0 }
    }
}
