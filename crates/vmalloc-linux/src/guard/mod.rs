//! Guards: how pages that may not be touched are made to trap.
//!
//! ```text
//!  pte.rs       marks in the page tables (Linux 6.13) ──► extents.rs, chunks.rs  which pages are open
//!  mprotect.rs  inaccessible mappings (older kernels)
//! ```

pub(crate) mod chunks;
pub(crate) mod extents;
pub(crate) mod mprotect;
pub(crate) mod pte;

use crate::means::Guards;
use crate::os::reservation::{Access, Reservation};
use mprotect::Mprotect;
use pte::{Below, PteMarkers};
use vmalloc::{PageRange, PlatformError};

/// The guards of one reservation, chosen when it was made.
#[derive(Debug)]
pub(crate) enum Guarding {
    PteMarkers(PteMarkers),
    Mprotect(Mprotect),
}

impl Guarding {
    /// Returns which kind of guards these are.
    pub(crate) fn kind(&self) -> Guards {
        match self {
            Self::PteMarkers(_) => Guards::PteMarkers,
            Self::Mprotect(_) => Guards::Mprotect,
        }
    }

    /// Makes pages readable and writable that are plain.
    pub(crate) fn map(&self, memory: &Reservation, range: PageRange) -> Result<Below, PlatformError> {
        match self {
            Self::PteMarkers(markers) => markers.map(memory, range),
            Self::Mprotect(mprotect) => mprotect.map(memory, range).map(|()| Below::Tables),
        }
    }

    /// Drops the memory behind plain pages, and makes them trap.
    pub(crate) fn unmap(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        match self {
            Self::PteMarkers(markers) => markers.unmap(memory, ranges),
            Self::Mprotect(mprotect) => mprotect.unmap(memory, ranges),
        }
    }

    /// Returns the access that fresh memory gets where a special page becomes plain.
    pub(crate) fn plain_access(&self) -> Access {
        match self {
            // W3: the pages between special ones are open, too.
            Self::PteMarkers(_) => Access::ReadWrite,
            Self::Mprotect(_) => Access::None,
        }
    }
}
