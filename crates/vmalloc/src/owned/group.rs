//! Areas at fixed distances from one base, for per-CPU memory.

use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::platform::Platform;
use crate::space::Space;
use crate::{CongruentError, FreeError, PercpuError, PercpuFreeError};
use alloc::vec::Vec;

/// The offsets and sizes of a group: see [`CongruentAreas`].
#[derive(Debug)]
pub struct Group {
    offsets: Vec<usize>,
    sizes: Vec<usize>,
}

impl Sealed for Group {}

// SAFETY: groups of `Raw::alloc_congruent` end by `Raw::free_congruent`.
unsafe impl<P: Platform> Ends<P> for Group {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        let page = (addr >> space.geometry().page_shift) as u64;
        // SAFETY: the caller owns it.
        let ended = unsafe { space.raw().free_congruent(addr, &self.offsets, &self.sizes) };
        ended.map_err(|error| match error {
            PercpuFreeError::Area { cause, .. } => cause,
            // Memory for the list of freed areas is short.
            _ => FreeError::NoMemory { page },
        })
    }
}

/// Owned areas at fixed distances from one base, which is their [`addr`](Self::addr).
pub type CongruentAreas<S> = Owned<S, Group>;

impl<S: SpaceRef> CongruentAreas<S> {
    /// Reserves one area for each of `sizes`, at `offsets` from one base. See
    /// [`Raw::alloc_congruent`](crate::Raw::alloc_congruent).
    ///
    /// # Errors
    /// [`PercpuError`]; nothing is lost or changed.
    pub fn new(space: S, offsets: &[usize], sizes: &[usize], align: usize) -> Result<Self, PercpuError> {
        let copy = |list: &[usize]| {
            let mut copy = Vec::new();
            copy.try_reserve_exact(list.len()).map_err(|_| CongruentError::Metadata)?;
            copy.extend_from_slice(list);
            Ok::<_, CongruentError>(copy)
        };
        let group = Group { offsets: copy(offsets)?, sizes: copy(sizes)? };
        let base = space.raw().alloc_congruent(offsets, sizes, align)?;
        Ok(Self::own(space, base, group))
    }

    /// Returns the address of the area at `index`, if there is one.
    #[must_use]
    pub fn area(&self, index: usize) -> Option<usize> {
        Some(self.addr().wrapping_add(*self.kind.offsets.get(index)?))
    }
}
