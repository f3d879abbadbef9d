//! An area that frees itself: a case may end anywhere and leave nothing behind.

use crate::machine::Machine;
use std::ops::Range;
use vmalloc::{AllocError, AreaError, FreeError, Request};

/// An area of memory, owned.
pub(crate) struct Area<'m> {
    machine: &'m Machine,
    addr: usize,
}

impl<'m> Area<'m> {
    /// Allocates what `request` asks for.
    pub(crate) fn new(machine: &'m Machine, request: &Request) -> Result<Self, AllocError> {
        Ok(Self { machine, addr: machine.space.raw().alloc(request)? })
    }

    /// `pages` pages at any page. More pages than an address can count are refused as such.
    pub(crate) fn of_pages(machine: &'m Machine, pages: u64) -> Result<Self, AllocError> {
        Self::new(machine, &request(machine, pages))
    }

    /// `bytes` bytes, with a byte of each page written.
    pub(crate) fn touched(machine: &'m Machine, bytes: usize) -> Result<Self, AllocError> {
        let area = Self::new(machine, &Request::new(bytes))?;
        for offset in (0..bytes).step_by(machine.page_bytes) {
            let byte = core::ptr::with_exposed_provenance_mut::<u8>(area.addr + offset);
            // SAFETY: as in `touch`, for the area has all of `bytes`.
            unsafe { byte.write_volatile(1) };
        }
        Ok(area)
    }

    /// `pages` pages at a multiple of `align` bytes.
    pub(crate) fn aligned(machine: &'m Machine, pages: u64, align: usize) -> Result<Self, AllocError> {
        Self::new(machine, &request(machine, pages).align(align))
    }

    /// `count` areas, all or none.
    pub(crate) fn many(
        count: u64,
        mut one: impl FnMut() -> Result<Self, AllocError>,
    ) -> Result<Vec<Self>, AllocError> {
        (0..count).map(|_| one()).collect()
    }

    /// Its first address.
    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    /// Writes the first byte.
    pub(crate) fn touch(&mut self) {
        let first = core::ptr::with_exposed_provenance_mut::<u8>(self.addr);
        // SAFETY: the area has at least one page, which is mapped and writable until the area is
        // freed (`DirectMemory`), and it belongs to `self` alone, which is borrowed exclusively.
        // Volatile, so that the write is not dropped for want of a reader.
        unsafe { first.write_volatile(1) };
    }

    /// Makes it one of `pages` pages, which may be elsewhere.
    pub(crate) fn resize(&mut self, pages: u64) -> Result<(), AreaError> {
        let bytes = pages as usize * self.machine.page_bytes;
        // SAFETY: `self` owns the area, and knows it by this address alone.
        self.addr = unsafe { self.machine.space.raw().realloc(self.addr, &vmalloc::Resize::new(bytes))? };
        Ok(())
    }

    /// Writes the first and the last word of each of `pages`, which the area has: what depends on
    /// `key` and the page.
    pub(crate) fn stamp(&mut self, pages: Range<u64>, key: u64) {
        for page in pages {
            // SAFETY: as in `touch`; a page begins and ends with a word.
            self.words(page).into_iter().for_each(|word| unsafe { word.write_volatile(stamp(page, key)) });
        }
    }

    /// The first of `pages`, which the area has, that does not hold the stamps of `key`.
    pub(crate) fn first_wrong(&self, mut pages: Range<u64>, key: u64) -> Option<u64> {
        // SAFETY: the pages are mapped and readable until the area is freed.
        let read = |word: *mut u64| unsafe { word.read_volatile() };
        pages.find(|&page| self.words(page).iter().any(|&word| read(word) != stamp(page, key)))
    }

    /// The first and the last word of a page.
    fn words(&self, page: u64) -> [*mut u64; 2] {
        let (start, bytes) = (self.addr + page as usize * self.machine.page_bytes, self.machine.page_bytes);
        [start, start + bytes - size_of::<u64>()].map(core::ptr::with_exposed_provenance_mut)
    }

    /// Its first address; the caller owns it from here on.
    pub(crate) fn into_addr(self) -> usize {
        let addr = self.addr;
        core::mem::forget(self);
        addr
    }

    /// Frees it, and tells when that is refused.
    pub(crate) fn free(self) -> Result<(), FreeError> {
        let (machine, addr) = (self.machine, self.into_addr());
        // SAFETY: the area belonged to `self` alone, which is gone and does not free it again.
        unsafe { machine.space.raw().free(addr) }
    }
}

impl Drop for Area<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `free`: `self` owned the area, and is gone. A refusal leaves the area busy,
        // which the check after the run reports.
        let _ = unsafe { self.machine.space.raw().free(self.addr) };
    }
}

/// A request for `pages` pages.
pub(crate) fn request(machine: &Machine, pages: u64) -> Request {
    Request::new(usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(machine.page_bytes))
}

/// Returns the stamp of a page: neighbouring pages and keys differ in many bits.
fn stamp(page: u64, key: u64) -> u64 {
    (key << 32 | page).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
