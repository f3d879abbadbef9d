//! The means that a kernel may or may not have, and the limits that follow from how they are used.
//!
//! A leaf: [`options`](crate::options) names them, [`reserve`](crate::reserve) probes them, and the
//! files below use them.

/// How a page that may not be touched is guarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum GuardMeans {
    /// By marks in the page tables (`MADV_GUARD_INSTALL`, Linux 6.13). They cost no mapping,
    /// however many there are.
    PteMarkers,
    /// By inaccessible mappings between accessible ones (`mprotect(2)`), on any kernel.
    ///
    /// Each area costs two mappings of the `vm.max_map_count` (65,530 by default) that the program
    /// may have.
    Mprotect,
    /// By userfaultfd(2) (Linux 6.8): a page that is not there raises `SIGBUS`. Guards cost no
    /// mapping. An area costs two, unless it gets its pages from an earlier area below 4 MiB that
    /// was filled and freed. Beyond half of `vm.max_map_count` areas below 4 MiB cost none.
    ///
    /// For frees that [trap at once](vmalloc::SpaceOptions::trap_on_free), which cost a fifth of mmap(2) and
    /// munmap(2) with them where areas are filled, and about as much as those where they are not.
    /// New memory has any content. A program must not drop pages of its areas by madvise(2), but by
    /// [`Raw::discard`](vmalloc::Raw::discard): a page that was dropped may trap. Nothing
    /// traps any more where it closes descriptors that are not its own, until the next allocation.
    /// Strict overcommit and `RLIMIT_DATA` count the whole span.
    Userfault,
}

impl GuardMeans {
    /// Returns all of them, best first: the order in which they are probed. The last is chosen only
    /// for [frees that trap](vmalloc::SpaceOptions::trap_on_free).
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        [Self::PteMarkers, Self::Mprotect, Self::Userfault].into_iter()
    }
}

/// The most frames of one reservation: an entry of the page table of
/// [`frames`](crate::frames) has 29 bits for a frame (2 TiB of pages of 4 KiB).
pub(crate) const FRAMES_MAX: u64 = 1 << 29;
