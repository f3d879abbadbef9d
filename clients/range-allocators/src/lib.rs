//! Four published allocators of ranges and the drop-in for each, behind one trait, for tests and benches.

use ax_memory_addr::AddrRange;

/// An allocator of ranges, as published or as a drop-in.
pub trait Ranges {
    /// Where the allocator is from.
    const NAME: &'static str;
    /// The unit of sizes and alignments.
    const UNIT: u64;
    /// Returns an allocator of `[0, bytes)`.
    fn new(bytes: u64) -> Self;
    /// Allocates a range, and returns its start.
    fn alloc(&mut self, bytes: u64, align: u64) -> Option<u64>;
    /// Frees a range that was allocated.
    fn free(&mut self, start: u64, bytes: u64);
}

/// A set of mappings, which finds free addresses apart from taking them.
pub trait Set: Ranges {
    /// Finds free addresses, and takes none.
    fn find_free(&self, bytes: u64) -> Option<u64>;
    /// Returns the start of the mapping that holds an address.
    fn find(&self, address: u64) -> Option<u64>;
    /// Removes a mapping, and makes one at the same place.
    fn replace(&mut self, start: u64, bytes: u64);
}

macro_rules! free_list {
    ($name:ident, $crate_:ident, $text:literal) => {
        /// Free lists, as Hermit's kernel has them.
        pub struct $name($crate_::FreeList<16>);

        impl Ranges for $name {
            const NAME: &'static str = $text;
            const UNIT: u64 = 4096;

            fn new(bytes: u64) -> Self {
                let mut list = $crate_::FreeList::new();
                // SAFETY: these addresses name nothing.
                unsafe { list.deallocate($crate_::PageRange::new(0, bytes as usize).unwrap()).unwrap() };
                Self(list)
            }

            fn alloc(&mut self, bytes: u64, align: u64) -> Option<u64> {
                let layout = $crate_::PageLayout::from_size_align(bytes as usize, align as usize).unwrap();
                self.0.allocate(layout).ok().map(|range| range.start() as u64)
            }

            fn free(&mut self, start: u64, bytes: u64) {
                let range = $crate_::PageRange::from_start_len(start as usize, bytes as usize).unwrap();
                // SAFETY: these addresses name nothing.
                unsafe { self.0.deallocate(range).unwrap() };
            }
        }
    };
}

macro_rules! vm_allocator {
    ($name:ident, $crate_:ident, $text:literal) => {
        /// Addresses of devices, as rust-vmm has them.
        pub struct $name($crate_::AddressAllocator);

        impl Ranges for $name {
            const NAME: &'static str = $text;
            const UNIT: u64 = 4096;

            fn new(bytes: u64) -> Self {
                Self($crate_::AddressAllocator::new(0, bytes).unwrap())
            }

            fn alloc(&mut self, bytes: u64, align: u64) -> Option<u64> {
                self.0
                    .allocate(bytes, align, $crate_::AllocPolicy::FirstMatch)
                    .ok()
                    .map(|range| range.start())
            }

            fn free(&mut self, start: u64, bytes: u64) {
                self.0.free(&$crate_::RangeInclusive::new(start, start + bytes - 1).unwrap()).unwrap();
            }
        }
    };
}

macro_rules! range_alloc {
    ($name:ident, $crate_:ident, $text:literal) => {
        /// Ranges of a buffer, as wgpu has them.
        pub struct $name($crate_::RangeAllocator<u64>);

        impl Ranges for $name {
            const NAME: &'static str = $text;
            const UNIT: u64 = 1;

            fn new(bytes: u64) -> Self {
                Self($crate_::RangeAllocator::new(0..bytes))
            }

            fn alloc(&mut self, bytes: u64, align: u64) -> Option<u64> {
                let range = if align == 1 {
                    self.0.allocate_range(bytes)
                } else {
                    self.0.allocate_range_aligned(bytes, align)
                };
                range.ok().map(|range| range.start)
            }

            fn free(&mut self, start: u64, bytes: u64) {
                self.0.free_range(start..start + bytes);
            }
        }
    };
}

macro_rules! memory_set {
    ($name:ident, $backend:ident, $crate_:ident, $text:literal) => {
        /// A backend that agrees to everything and maps nothing.
        #[derive(Clone)]
        pub struct $backend;

        impl $crate_::MappingBackend for $backend {
            type Addr = usize;
            type Flags = u8;
            type MutationContext = ();
            type PageTable = ();

            fn map(&self, _: usize, _: usize, _: u8, _: &mut (), _: &mut ()) -> bool {
                true
            }

            fn unmap(&self, _: usize, _: usize, _: &mut (), _: &mut ()) -> bool {
                true
            }

            fn protect(&self, _: usize, _: usize, _: u8, _: &mut (), _: &mut ()) -> bool {
                true
            }

            fn split(&mut self, _: usize) -> Option<Self> {
                Some(Self)
            }
        }

        /// Mappings of an address space, as ArceOS has them.
        pub struct $name {
            set: $crate_::MemorySet<$backend>,
            limit: AddrRange<usize>,
        }

        impl $name {
            fn map(&mut self, start: u64, bytes: u64) {
                let area = $crate_::MemoryArea::new(start as usize, bytes as usize, 0, $backend);
                self.set.map(area, &mut (), &mut (), false).unwrap();
            }
        }

        impl Ranges for $name {
            const NAME: &'static str = $text;
            const UNIT: u64 = 4096;

            fn new(bytes: u64) -> Self {
                Self { set: $crate_::MemorySet::new(), limit: AddrRange::new(0, bytes as usize) }
            }

            fn alloc(&mut self, bytes: u64, align: u64) -> Option<u64> {
                let start = self.set.find_free_area(0, bytes as usize, self.limit, align as usize)? as u64;
                self.map(start, bytes);
                Some(start)
            }

            fn free(&mut self, start: u64, bytes: u64) {
                self.set.unmap(start as usize, bytes as usize, &mut (), &mut ()).unwrap();
            }
        }

        impl Set for $name {
            fn find_free(&self, bytes: u64) -> Option<u64> {
                let found = self.set.find_free_area(0, bytes as usize, self.limit, Self::UNIT as usize);
                found.map(|start| start as u64)
            }

            fn find(&self, address: u64) -> Option<u64> {
                self.set.find(address as usize).map(|area| area.start() as u64)
            }

            fn replace(&mut self, start: u64, bytes: u64) {
                self.set.unmap_exact(start as usize, bytes as usize, &mut (), &mut ()).unwrap();
                self.map(start, bytes);
            }
        }
    };
}

memory_set!(MemorySet, NoBackend, ax_memory_set, "ax-memory-set");
memory_set!(MemorySetOriginal, NoBackendOriginal, ax_memory_set_original, "ax-memory-set, original");
free_list!(FreeList, free_list, "free-list");
free_list!(FreeListOriginal, free_list_original, "free-list, original");
vm_allocator!(VmAllocator, vm_allocator, "vm-allocator");
vm_allocator!(VmAllocatorOriginal, vm_allocator_original, "vm-allocator, original");
range_alloc!(RangeAlloc, range_alloc, "range-alloc");
range_alloc!(RangeAllocOriginal, range_alloc_original, "range-alloc, original");
