//! Growing in a space of ours.

use super::super::{PAGE_BYTES, space};
use super::Growth;
use vmalloc::Request;
use vmalloc_linux::SharedSpace;

/// An area that frees itself.
struct Area {
    space: SharedSpace,
    addr: usize,
    pages: usize,
}

impl Area {
    fn new(pages: usize) -> Self {
        let space = space();
        let addr = space.raw().alloc(&Request::new(pages * PAGE_BYTES)).expect("memory for an area");
        Self { space, addr, pages }
    }

    fn realloc(&mut self, pages: usize) {
        // SAFETY: the area is this one's alone, which knows it by this address only.
        let addr = unsafe { self.space.raw().realloc(self.addr, &vmalloc::Request::new(pages * PAGE_BYTES)) };
        (self.addr, self.pages) = (addr.expect("memory for a larger area"), pages);
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { self.space.raw().free(self.addr) }.expect("a live area");
    }
}

/// Nothing is behind the area.
pub(super) struct InPlace(Area);

impl Growth for InPlace {
    const NAME: &'static str = "realloc, in place";
    const EACH: usize = 1;

    fn begin(pages: usize) -> Self {
        Self(Area::new(pages))
    }

    fn grow(&mut self, pages: usize) {
        self.0.realloc(pages);
    }

    fn addr(&self) -> usize {
        self.0.addr
    }
}

/// Something is right behind the area before each step.
pub(super) struct Blocked {
    area: Area,
    neighbour: Option<usize>,
}

impl Blocked {
    fn clear(&mut self) {
        if let Some(addr) = self.neighbour.take() {
            // SAFETY: nothing uses the addresses any more.
            unsafe { self.area.space.raw().unreserve(addr) }.expect("a neighbour");
        }
    }
}

impl Growth for Blocked {
    const NAME: &'static str = "realloc, blocked each time";
    const EACH: usize = 8;

    fn begin(pages: usize) -> Self {
        Self { area: Area::new(pages), neighbour: None }
    }

    fn obstruct(&mut self) {
        self.clear();
        // Behind the guard page: a grown area may be larger than was asked for.
        let area = self.area.space.find(self.area.addr).expect("a live area");
        let behind = self.area.addr + (area.pages as usize + usize::from(area.guard)) * PAGE_BYTES;
        let page = Request::new(PAGE_BYTES).guard(false).within(behind, behind + PAGE_BYTES);
        self.neighbour = Some(self.area.space.raw().reserve(&page).expect("a page behind the area"));
    }

    fn grow(&mut self, pages: usize) {
        self.area.realloc(pages);
    }

    fn addr(&self) -> usize {
        self.area.addr
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.clear();
    }
}

/// By hand: a new area, a copy, and a free.
pub(super) struct Copied(Area);

impl Growth for Copied {
    const NAME: &'static str = "vmalloc + copy + free";
    const EACH: usize = 256;

    fn begin(pages: usize) -> Self {
        Self(Area::new(pages))
    }

    fn grow(&mut self, pages: usize) {
        let area = &mut self.0;
        let new = area
            .space
            .raw()
            .alloc(&vmalloc::Request::new(pages * PAGE_BYTES))
            .expect("memory for a larger area");
        let old = core::ptr::with_exposed_provenance::<u8>(area.addr);
        // SAFETY: both areas are live, this one's alone, and at least as large as the smaller.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<u8>(new)
                .copy_from_nonoverlapping(old, area.pages * PAGE_BYTES);
        };
        // SAFETY: nothing uses the old one any more.
        unsafe { area.space.raw().free(area.addr) }.expect("a live area");
        (area.addr, area.pages) = (new, pages);
    }

    fn addr(&self) -> usize {
        self.0.addr
    }
}
