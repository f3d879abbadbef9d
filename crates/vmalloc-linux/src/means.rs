//! The means that a kernel may or may not have, and the limits that follow from how they are used.
//!
//! A leaf: [`options`](crate::options) names them, [`reserve`](crate::reserve) probes them, and the
//! files below use them.

/// How a page that may not be touched is guarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Guards {
    /// By marks in the page tables (`MADV_GUARD_INSTALL`, Linux 6.13). They cost no mapping,
    /// however many there are.
    PteMarkers,
    /// By inaccessible mappings between accessible ones (`mprotect(2)`), on any kernel.
    ///
    /// Each area costs two mappings of the `vm.max_map_count` (65,530 by default) that the program
    /// may have.
    Mprotect,
}

impl Guards {
    /// Returns all of them, best first: the order in which they are probed.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        [Self::PteMarkers, Self::Mprotect].into_iter()
    }
}

/// How one call advises the kernel about many ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum BatchAdvise {
    /// `process_madvise(PIDFD_SELF)`: it needs no descriptor, and stays right in a forked child.
    PidfdSelf,
    /// `process_madvise` on a descriptor of this process, opened again after a fork.
    Pidfd,
    /// One `madvise(2)` a range, for kernels before 6.13. Their `process_madvise` can neither drop
    /// nor guard pages.
    Loop,
}

impl BatchAdvise {
    /// Returns all of them, best first: the order in which they are probed.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        [Self::PidfdSelf, Self::Pidfd, Self::Loop].into_iter()
    }
}

/// The most frames of one reservation: an entry of the page table of
/// [`frames`](crate::frames) has 29 bits for a frame (2 TiB of pages of 4 KiB).
pub(crate) const FRAMES_MAX: u64 = 1 << 29;
