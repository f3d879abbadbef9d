//! Guards: how pages that may not be touched are made to trap.
//!
//! ```text
//!  pte.rs       marks in the page tables (Linux 6.13) ──► opened.rs, chunks.rs  which pages are open
//!  mprotect.rs  inaccessible mappings (older kernels)
//!  userfault.rs missing pages raise SIGBUS (for frees that trap) ──► stash.rs  memory to be moved
//!  dumps.rs     what is in core dumps, for the last two
//! ```

pub(crate) mod chunks;
pub(crate) mod dumps;
pub(crate) mod mprotect;
pub(crate) mod opened;
pub(crate) mod pte;
pub(crate) mod stash;
pub(crate) mod userfault;

use crate::means::GuardMeans;
use crate::os::reservation::{Access, Reservation};
use mprotect::Mprotect;
use pte::{Below, PteMarkers};
use userfault::Userfault;
use vmalloc::{Evict, PageRange, PlatformError};

/// The guards of one reservation, chosen when it was made.
#[derive(Debug)]
pub(crate) enum Guarding {
    PteMarkers(PteMarkers),
    Mprotect(Mprotect),
    Userfault(Userfault),
}

impl Guarding {
    /// Returns which kind of guards these are.
    pub(crate) fn kind(&self) -> GuardMeans {
        match self {
            Self::PteMarkers(_) => GuardMeans::PteMarkers,
            Self::Mprotect(_) => GuardMeans::Mprotect,
            Self::Userfault(_) => GuardMeans::Userfault,
        }
    }

    /// Makes pages readable and writable that are plain. The CPU is a hint.
    pub(crate) fn map(
        &self,
        memory: &Reservation,
        range: PageRange,
        cpu: usize,
    ) -> Result<Below, PlatformError> {
        match self {
            Self::PteMarkers(markers) => markers.map(memory, range),
            Self::Mprotect(mprotect) => mprotect.map(memory, range).map(|()| Below::Tables),
            Self::Userfault(userfault) => userfault.map(memory, range, cpu).map(|()| Below::Nothing),
        }
    }

    /// Drops the memory behind plain pages, and makes them trap.
    pub(crate) fn unmap(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        match self {
            Self::PteMarkers(markers) => markers.unmap(memory, ranges),
            Self::Mprotect(mprotect) => mprotect.unmap(memory, ranges),
            Self::Userfault(userfault) => userfault.unmap(memory, ranges),
        }
    }

    /// Unmaps plain pages so that they trap on return, on every CPU.
    pub(crate) fn unmap_now(
        &self,
        memory: &Reservation,
        range: PageRange,
        cpu: usize,
    ) -> Result<(), PlatformError> {
        match self {
            Self::Userfault(userfault) => userfault.unmap_now(memory, range, cpu),
            Self::PteMarkers(_) | Self::Mprotect(_) => self.unmap(memory, &[range]),
        }
    }

    /// Gives memory back that is kept of unmapped pages. Returns whether some is left.
    pub(crate) fn evict(&self, part: Evict) -> bool {
        match self {
            Self::Userfault(userfault) => userfault.evict(part),
            Self::PteMarkers(_) | Self::Mprotect(_) => false,
        }
    }

    /// Returns true if pages that were just mapped read as zero.
    pub(crate) fn maps_zeroed(&self) -> bool {
        match self {
            Self::Userfault(userfault) => userfault.maps_zeroed(),
            Self::PteMarkers(_) | Self::Mprotect(_) => true,
        }
    }

    /// Returns the access that fresh memory gets where a special page becomes plain.
    pub(crate) fn plain_access(&self) -> Access {
        match self {
            // Pages that lose their registration are opened.
            Self::Userfault(_) => Access::ReadWrite,
            // W3: the pages between special ones are open, too.
            Self::PteMarkers(_) => Access::ReadWrite,
            Self::Mprotect(_) => Access::None,
        }
    }
}
