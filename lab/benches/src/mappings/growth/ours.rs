//! Growing in a space of ours.

use super::super::{PAGE_BYTES, space};
use super::{How, Memory};
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use vmalloc::Request;
use vmalloc_linux::SharedSpace;

/// An area that frees itself.
pub(super) struct Area {
    space: SharedSpace,
    addr: usize,
    pages: usize,
    /// Addresses right behind the area.
    neighbour: Option<usize>,
}

impl Area {
    fn clear(&mut self) {
        if let Some(addr) = self.neighbour.take() {
            // SAFETY: nothing uses the addresses any more.
            unsafe { self.space.raw().unreserve(addr) }.expect("a neighbour");
        }
    }
}

impl Memory for Area {
    fn begin(_how: How, pages: usize) -> Self {
        let space = space();
        let addr = space.raw().alloc(&Request::new(pages * PAGE_BYTES)).expect("memory for an area");
        Self { space, addr, pages, neighbour: None }
    }

    fn obstruct(&mut self) {
        self.clear();
        // Behind the guard page: a grown area may be larger than was asked for.
        let area = self.space.find(self.addr).expect("a live area");
        let behind = self.addr + (area.pages as usize + usize::from(area.guard)) * PAGE_BYTES;
        let page = Request::new(PAGE_BYTES).guard(false).within(behind, behind + PAGE_BYTES);
        self.neighbour = Some(self.space.raw().reserve(&page).expect("a page behind the area"));
    }

    fn realloc(&mut self, pages: usize) {
        // SAFETY: the area is this one's alone, which knows it by this address only.
        let addr = unsafe { self.space.raw().realloc(self.addr, &Request::new(pages * PAGE_BYTES)) };
        (self.addr, self.pages) = (addr.expect("memory for a larger area"), pages);
    }

    fn copy(&mut self, pages: usize) {
        let raw = self.space.raw();
        let new = raw.alloc(&Request::new(pages * PAGE_BYTES)).expect("memory for a larger area");
        let old = with_exposed_provenance::<u8>(self.addr);
        // SAFETY: both areas are live, this one's alone, and at least as large as the smaller.
        unsafe {
            with_exposed_provenance_mut::<u8>(new).copy_from_nonoverlapping(old, self.pages * PAGE_BYTES);
        };
        // SAFETY: nothing uses the old one any more.
        unsafe { raw.free(self.addr) }.expect("a live area");
        (self.addr, self.pages) = (new, pages);
    }

    fn addr(&self) -> usize {
        self.addr
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.clear();
        // SAFETY: nothing uses the area any more.
        unsafe { self.space.raw().free(self.addr) }.expect("a live area");
    }
}
