//! The one trait that every range allocator is measured through.

use vmalloc::PageRange;

/// First page of the space that every allocator manages: 8 TiB with pages of 4 KiB.
pub const BASE_PAGE: u64 = 1 << 31;

/// Pages of that space: 8 TiB, the most whose length a 32-bit peer can express.
pub const SPACE_PAGES: u64 = 1 << 31;

/// Returns that space.
pub(crate) fn span() -> PageRange {
    PageRange::from_len(BASE_PAGE, SPACE_PAGES).expect("the space is not empty")
}

/// Tells an allocator before it is built how it will be used.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many areas will be live at once; some peers allocate all metadata in advance.
    pub areas: usize,
    /// True if a guard page follows every area.
    pub guard: bool,
}

/// A range allocator over the pages `[BASE_PAGE, BASE_PAGE + SPACE_PAGES)`.
///
/// All that an allocator wants back on `free` (a length, a node number) travels in its handle, so
/// that no peer pays for a lookup that its own interface spares it.
pub trait Ranges: Sized {
    /// Names an allocation.
    type Handle: Copy;
    /// How tables name it.
    const NAME: &'static str;
    /// True if it can align.
    const ALIGNS: bool;
    /// True if it can find an area by address.
    const FINDS: bool = false;
    /// True if it can allocate near a page.
    const NEARS: bool = false;
    /// True if it adds guard pages itself; otherwise guarded requests ask for one page more.
    const GUARDS: bool = false;

    /// An empty space.
    fn build(plan: &Plan) -> Self;

    /// Allocates `pages` pages at a multiple of `align` pages.
    ///
    /// # Panics
    /// When the space is full, which no workload lets happen.
    fn allocate(&mut self, pages: u64, align: u64) -> Self::Handle;

    /// Frees what `allocate` returned.
    fn free(&mut self, handle: Self::Handle);

    /// The first page of an allocation.
    fn start(handle: Self::Handle) -> u64;

    /// The first page of the area that holds `page`.
    fn find(&self, _page: u64) -> Option<u64> {
        None
    }

    /// Allocates a page as near to `page` as can be, and frees it.
    fn bounce_near(&mut self, _page: u64) {}

    /// Makes everything freed so far reusable by any request; called once, when the set-up is done.
    fn settle(&mut self) {}

    /// Metadata in use as the allocator itself counts it, where it does.
    fn own_metadata_bytes(&self) -> Option<usize> {
        None
    }
}
