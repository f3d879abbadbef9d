//! Pages of a file in memory, mapped as a program does without us.

use super::{PAGE_BYTES, SIZES, touch};
use crate::by_hand::{ACCESS, Mapped};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;

/// A run of pages: the number of the first, and how many there are.
pub type Run = (u64, usize);

/// The file.
pub struct Shared {
    file: OwnedFd,
    /// Addresses where nothing else is mapped.
    window: Mapped,
}

impl Shared {
    /// Makes a file of `pages` pages, which have memory.
    ///
    /// # Panics
    /// When there is none.
    pub fn new(pages: usize) -> Self {
        let file = rustix::fs::memfd_create(c"pool", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        rustix::fs::ftruncate(&file, (pages * PAGE_BYTES) as u64).expect("room for the pool");
        let most = SIZES[SIZES.len() - 1];
        let shared = Self { file, window: reserve(most) };
        shared.map_pages([(0, pages)]);
        shared
    }

    /// Maps runs, touches each page, and unmaps all: addresses, a call for each run, and one to end
    /// it all.
    ///
    /// # Panics
    /// When a call is refused.
    pub fn map_pages(&self, runs: impl IntoIterator<Item = Run, IntoIter: Clone>) {
        let runs = runs.into_iter();
        let pages = runs.clone().map(|run| run.1).sum();
        let mapped = reserve(pages);
        self.show(&mapped, runs);
        // SAFETY: all pages were mapped just now, and nothing else knows them.
        unsafe { touch(mapped.addr(), pages) };
    }

    /// Makes the calls that map runs, of no more pages than the largest of the [`SIZES`], each over
    /// what was mapped before.
    ///
    /// # Panics
    /// When a call is refused.
    pub fn calls_alone(&self, runs: impl IntoIterator<Item = Run>) {
        self.show(&self.window, runs);
    }

    fn show(&self, place: &Mapped, runs: impl IntoIterator<Item = Run>) {
        let flags = MapFlags::FIXED | MapFlags::SHARED;
        let mut at = with_exposed_provenance_mut::<c_void>(place.addr());
        for (first, pages) in runs {
            let (bytes, offset) = (pages * PAGE_BYTES, first * PAGE_BYTES as u64);
            // SAFETY: inside the caller's reservation, to whose pages nothing refers.
            unsafe { mmap(at, bytes, ACCESS, flags, &self.file, offset) }.expect("a mapping");
            at = at.wrapping_byte_add(bytes);
        }
    }
}

/// Returns new addresses for `pages` pages, without access.
fn reserve(pages: usize) -> Mapped {
    Mapped::new(pages * PAGE_BYTES, ProtFlags::empty()).expect("addresses")
}
