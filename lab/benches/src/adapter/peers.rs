//! The crates that a program could use instead. None of them finds an area by address.

use crate::ranges::{BASE_PAGE, Plan, Ranges, SPACE_PAGES};
use free_list::{FreeList, PageLayout, PageRange};
use offset_allocator::Allocation;
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};

/// `vm-allocator`: an AVL tree of free and allocated ranges, first match.
pub struct VmAllocator(AddressAllocator);

impl Ranges for VmAllocator {
    type Handle = RangeInclusive;
    const NAME: &'static str = "vm-allocator";
    const ALIGNS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self(AddressAllocator::new(BASE_PAGE, SPACE_PAGES).expect("a valid space"))
    }

    fn allocate(&mut self, pages: u64, align: u64) -> RangeInclusive {
        self.0.allocate(pages, align, AllocPolicy::FirstMatch).expect("space for every workload")
    }

    fn free(&mut self, range: RangeInclusive) {
        self.0.free(&range).expect("a live range");
    }

    fn start(range: RangeInclusive) -> u64 {
        range.start()
    }
}

/// `range-alloc`: a sorted vector of free ranges, best fit.
pub struct RangeAlloc(range_alloc::RangeAllocator<u64>);

impl Ranges for RangeAlloc {
    type Handle = (u64, u64);
    const NAME: &'static str = "range-alloc";
    const ALIGNS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self(range_alloc::RangeAllocator::new(BASE_PAGE..BASE_PAGE + SPACE_PAGES))
    }

    fn allocate(&mut self, pages: u64, align: u64) -> (u64, u64) {
        let range = match align {
            1 => self.0.allocate_range(pages),
            _ => self.0.allocate_range_aligned(pages, align),
        };
        let range = range.expect("space for every workload");
        (range.start, range.end)
    }

    fn free(&mut self, (start, end): (u64, u64)) {
        self.0.free_range(start..end);
    }

    fn start((start, _): (u64, u64)) -> u64 {
        start
    }
}

/// `offset-allocator`: free ranges in bins by size, constant time; all metadata allocated in
/// advance.
pub struct Offset(offset_allocator::Allocator<u32>);

impl Ranges for Offset {
    type Handle = Allocation<u32>;
    const NAME: &'static str = "offset-allocator";
    const ALIGNS: bool = false;

    fn build(plan: &Plan) -> Self {
        // A node for each area, and one for each free range: at most one behind each area.
        let nodes = 2 * plan.areas as u32 + 16;
        Self(offset_allocator::Allocator::with_max_allocs(SPACE_PAGES as u32, nodes))
    }

    fn allocate(&mut self, pages: u64, _align: u64) -> Allocation<u32> {
        self.0.allocate(pages as u32).expect("space for every workload")
    }

    fn free(&mut self, allocation: Allocation<u32>) {
        self.0.free(allocation);
    }

    fn start(allocation: Allocation<u32>) -> u64 {
        BASE_PAGE + u64::from(allocation.offset)
    }
}

/// `free-list`: a sorted small vector of free page ranges, first fit.
pub struct FreeListPages(FreeList<16>);

/// The unit of `free-list` is the byte.
const PAGE_BYTES: u64 = free_list::PAGE_SIZE as u64;

impl Ranges for FreeListPages {
    type Handle = PageRange;
    const NAME: &'static str = "free-list";
    const ALIGNS: bool = true;

    fn build(_plan: &Plan) -> Self {
        let mut list = FreeList::new();
        let bytes = |pages| (pages * PAGE_BYTES) as usize;
        let all = PageRange::from_start_len(bytes(BASE_PAGE), bytes(SPACE_PAGES)).expect("a valid space");
        // SAFETY: the list hands out numbers; they are not taken for memory here.
        unsafe { list.deallocate(all) }.expect("an empty list");
        Self(list)
    }

    fn allocate(&mut self, pages: u64, align: u64) -> PageRange {
        let layout =
            PageLayout::from_size_align((pages * PAGE_BYTES) as usize, (align * PAGE_BYTES) as usize);
        self.0.allocate(layout.expect("a valid request")).expect("space for every workload")
    }

    fn free(&mut self, range: PageRange) {
        // SAFETY: as in `build`; the range came from this list and is freed once.
        unsafe { self.0.deallocate(range) }.expect("a live range");
    }

    fn start(range: PageRange) -> u64 {
        range.start() as u64 / PAGE_BYTES
    }
}
