//! Blocks of the heap, also on pages of other sizes than the machine's.

use super::*;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_block_that_was_just_freed_has_not_aged() {
    let options = LinuxOptions::new().max_bytes(1 << 30).drain_thread(false).frame_bytes(0);
    let heap = LargeHeap::open(options, SpaceOptions::default(), 1).unwrap();
    for _ in 0..5 {
        // The next free is due to drain.
        sleep(Duration::from_millis(3));
        free(&heap, heap.alloc(8 << 20, 1)).unwrap();
        assert_eq!(heap.space().stats().cached_areas, 1);
    }
}

/// Returns a heap as that of the library to preload, without decay.
fn heap() -> LargeHeap {
    heap_of(page_bytes())
}

/// Returns such a heap with pages of `page` bytes.
fn heap_of(page: usize) -> LargeHeap {
    let most = 1 << if usize::BITS < 64 { 30 } else { 34 };
    let options = LinuxOptions::new().max_bytes(most).drain_thread(false).frame_bytes(0);
    let space = LargeHeap::space_options(128 << 20).guard(false);
    let heap = LargeHeap::open(options.page_bytes(page), space, 0).unwrap();
    assert_eq!(heap.space().geometry().page_bytes(), page);
    heap
}

/// Frees a block of the calling test, or an address at which none starts.
fn free(heap: &LargeHeap, block: *mut u8) -> Result<(), FreeError> {
    // SAFETY: nothing uses the block any more; other addresses are refused.
    unsafe { heap.free(block.expose_provenance()) }
}

/// Allocates a block, and fills it.
fn filled(heap: &LargeHeap, bytes: usize, with: u8) -> *mut u8 {
    let block = heap.alloc(bytes, 1);
    // SAFETY: a block of as many bytes.
    unsafe { block.write_bytes(with, bytes) };
    block
}

/// Returns the sizes of pages that machines have, as far as this one can show them.
fn page_sizes() -> impl Iterator<Item = usize> {
    [1, 4, 16].into_iter().map(|times| times * page_bytes())
}

/// A block that was filled with the low bits of its size.
struct Filled {
    addr: usize,
    bytes: usize,
    align: usize,
}

impl Filled {
    fn new(heap: &LargeHeap, bytes: usize, align: usize) -> Self {
        let zeros = heap.alloc_zeroed(bytes, align);
        // SAFETY: a block of so many bytes.
        assert!(unsafe { std::slice::from_raw_parts(zeros, bytes) }.iter().all(|&byte| byte == 0));
        Self { addr: zeros.expose_provenance(), bytes, align }.fill(heap)
    }

    fn resize(self, heap: &LargeHeap, bytes: usize) -> Self {
        // SAFETY: the block is this one, and the old address is forgotten.
        let new = unsafe { heap.realloc(self.addr, bytes, self.align) }.unwrap();
        // SAFETY: a block of so many bytes.
        let kept = unsafe { std::slice::from_raw_parts(new, self.bytes.min(bytes)) };
        assert!(kept.iter().all(|&byte| byte == self.bytes as u8), "{} to {bytes} bytes", self.bytes);
        Self { addr: new.expose_provenance(), bytes, align: self.align }.fill(heap)
    }

    fn fill(self, heap: &LargeHeap) -> Self {
        assert!(self.addr % self.align.max(16) == 0);
        let (usable, area) = (heap.usable_size(self.addr).unwrap(), heap.space().find(self.addr).unwrap());
        assert!(usable >= self.bytes && self.addr + usable == area.addr + heap.bytes_of(area.pages));
        let start = ptr::with_exposed_provenance_mut::<u8>(self.addr);
        // SAFETY: a block of so many bytes.
        unsafe { start.write_bytes(self.bytes as u8, self.bytes) };
        self
    }

    fn free(self, heap: &LargeHeap) {
        // SAFETY: the block is this one, and its address is forgotten.
        unsafe { heap.free(self.addr) }.unwrap();
    }
}

/// Contents, alignments and sizes hold, whatever way a block takes as it grows and shrinks.
#[test]
fn blocks_keep_their_content_whatever_the_size_of_pages() {
    page_sizes().for_each(|page| keep_content(&heap_of(page), page));
}

fn keep_content(heap: &LargeHeap, page: usize) {
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut blocks: Vec<Filled> = Vec::new();
    for step in 0..3000 {
        let most = 1 << (13 + next(10));
        let (bytes, nth) = (page + next(most), next(blocks.len() + 1));
        let block = match step % 3 {
            0 => Filled::new(heap, bytes, [1, 64, 128, page][next(4)]),
            _ if nth < blocks.len() => blocks.swap_remove(nth).resize(heap, bytes),
            _ => continue,
        };
        blocks.push(block);
        if blocks.len() > 60 {
            blocks.swap_remove(nth).free(heap);
        }
    }
    blocks.into_iter().for_each(|block| block.free(heap));
    assert_eq!(heap.space().stats().busy_areas, 0);
}

/// A block of 100,000 bytes on pages of 16 KiB lost 72,191 as it grew.
#[test]
fn realloc_keeps_every_byte_whatever_the_size_of_pages() {
    let sizes = [(100_000, 120_000), (300_000, 400_000), (100_000, 60_000), (2_000_000, 3_000_000)];
    for page in page_sizes() {
        let heap = heap_of(page);
        for (old, new) in sizes.into_iter().chain([(old_of(page), 9 * page), (9 * page, old_of(page))]) {
            let byte = |place: usize| (place % 251) as u8;
            let block = heap.alloc(old, 16);
            // SAFETY: a block of so many bytes.
            let content = unsafe { std::slice::from_raw_parts_mut(block, old) };
            content.iter_mut().enumerate().for_each(|(place, it)| *it = byte(place));
            // What comes behind the block keeps it from growing in place.
            let behind = heap.alloc(old, 16);
            // SAFETY: the block is this test's, and the old address is not used any more.
            let moved = unsafe { heap.realloc(block.expose_provenance(), new, 16) }.unwrap();
            // SAFETY: a block of so many bytes.
            let kept = unsafe { std::slice::from_raw_parts(moved, old.min(new)) };
            let wrong = kept.iter().enumerate().filter(|&(place, it)| *it != byte(place)).count();
            assert_eq!(wrong, 0, "{old} to {new} bytes on pages of {page}");
            [moved, behind].into_iter().for_each(|block| free(&heap, block).unwrap());
        }
        assert_eq!(heap.space().stats().busy_areas, 0);
    }
}

/// Returns a size of some pages and a bit.
fn old_of(page: usize) -> usize {
    3 * page + 100
}

#[test]
fn blocks_start_at_many_places_and_touch_no_page_more() {
    for page in page_sizes() {
        // Ten pages leave 960 bytes: 16 starts.
        let (heap, bytes) = (heap_of(page), 10 * page - 960);
        let starts: std::collections::HashSet<_> =
            (0..100).map(|_| heap.alloc(bytes, 16).addr() % page).collect();
        assert_eq!(starts.len(), 16);
        assert!(starts.iter().all(|start| start.is_multiple_of(LINE) && start + bytes <= 10 * page));
        for (bytes, align) in [(10 * page, 1), (bytes, 128), (16 * page, 1)] {
            assert!((0..100).all(|_| heap.alloc(bytes, align).addr().is_multiple_of(page)));
        }
    }
}

#[test]
fn an_address_inside_a_block_is_told_from_its_start_and_from_no_block() {
    page_sizes().for_each(|page| addresses_are_told(&heap_of(page), page));
}

fn addresses_are_told(heap: &LargeHeap, page: usize) {
    // A block of fewer bytes than move their pages: it has the color of its place.
    let block = heap.alloc(4 * page - 960, 1).expose_provenance();
    let first = heap.page(block);
    let base = block & !(page - 1);
    let line = (0..page).step_by(LINE).find(|&line| !is_color(base, line)).unwrap();
    let nowhere = heap.reservation().0 + heap.reservation().1 - page;
    for inside in [base + line, block + 8, block + page, block + 2 * page + 1, nowhere, nowhere + line] {
        let interior = match heap.page(inside) == first {
            true => FreeError::Unaligned { addr: inside },
            false if inside >= nowhere => FreeError::NotAnArea { addr: inside },
            false => FreeError::Interior { addr: inside, start: base },
        };
        // SAFETY: refused.
        assert_eq!(unsafe { heap.free(inside) }, Err(interior));
        // SAFETY: refused.
        assert_eq!(unsafe { heap.realloc(inside, 50_000, 1) }, Err(interior));
        assert_eq!(heap.usable_size(inside), None);
    }
    // SAFETY: allocated above.
    unsafe { heap.free(block) }.unwrap();
    // SAFETY: refused.
    assert_eq!(unsafe { heap.free(block) }, Err(FreeError::AlreadyFreed { addr: block }));
}

/// A program whose blocks grow leaves sizes behind, and asks for nothing later on: redis.
#[test]
fn sizes_that_a_growing_program_leaves_behind_are_not_cached() {
    let heap = heap();
    let blocks: Vec<_> = (0..1000).map(|_| heap.alloc(40_000, 1).expose_provenance()).collect();
    for block in blocks {
        // SAFETY: allocated above, and the old address is not used any more.
        let grown = unsafe { heap.realloc(block, 100_000, 1) }.unwrap();
        assert!(!grown.is_null());
    }
    let stats = heap.space().stats();
    assert!(stats.cached_pages < stats.busy_pages / 50, "{stats:?}");
}

#[test]
fn what_a_program_needs_again_stays_cached_while_it_grows() {
    let heap = heap();
    let sizes = [40_000, 100_000, 300_000];
    for round in 0..500 {
        sizes.map(|bytes| heap.alloc(bytes, 1)).into_iter().for_each(|block| free(&heap, block).unwrap());
        // It grows all the time.
        assert!(!heap.alloc(60_000, 1).is_null());
        let stats = heap.space().stats();
        assert!(round == 0 || stats.cached_areas == 3, "round {round}: {stats:?}");
    }
}

/// Returns the bytes of this process that count as data: those that can be written.
fn data_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// Under strict overcommit and a limit on data, what was opened counted for ever.
#[test]
fn chunks_that_are_free_again_do_not_count_as_memory_to_come() {
    vmalloc_harness::in_own_process(|| {
        let mut heap = heap();
        heap.is_charged = true;
        let before = data_bytes();
        for round in 0..3 {
            let mut blocks: Vec<_> = (0..100).map(|_| filled(&heap, 2 << 20, round)).collect();
            let stays = blocks.swap_remove(40);
            if heap.space().platform().guard_means() == vmalloc_linux::GuardMeans::PteMarkers {
                assert!(data_bytes() - before >= 200 << 20);
            }
            blocks.into_iter().for_each(|block| free(&heap, block).unwrap());
            heap.space().purge().unwrap();
            heap.drain(1);
            assert!(data_bytes() - before <= 32 << 20, "a chunk or two, and records");
            // SAFETY: a block of as many bytes, which was filled.
            let content = unsafe { std::slice::from_raw_parts(stays, 2 << 20) };
            assert!(content.iter().all(|&byte| byte == round));
            free(&heap, stays).unwrap();
        }
    });
}

#[test]
fn the_end_of_the_reservation_is_given_back_and_what_is_in_use_stays() {
    let heap = heap();
    let (base, bytes) = heap.reservation();
    let blocks: Vec<_> = (0..100).map(|_| filled(&heap, 1 << 20, 7)).collect();
    let mut told = Vec::new();
    heap.shrink(bytes / 4, |kept| told.push(kept));
    heap.shrink(0, |kept| told.push(kept));
    heap.shrink(bytes / 2, |kept| told.push(kept));
    assert!(told.len() == 2 && told[0] == bytes / 4 && (100 << 20..bytes / 4).contains(&told[1]), "{told:?}");
    assert_eq!(heap.reservation(), (base, told[1]));
    assert!(heap.contains(base + told[1] - 1) && !heap.contains(base + told[1]));
    assert_eq!(heap.in_use(), (100, 100 << 20));
    // Somebody else's mapping, which outlives the heap.
    let (place, access) = ((base + bytes / 2) as *mut libc::c_void, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel maps where nothing is mapped.
    let foreign = unsafe { libc::mmap(place, bytes / 4, access, flags | libc::MAP_NORESERVE, -1, 0) };
    assert_eq!(foreign, place);
    // SAFETY: the mapping of the line above.
    unsafe { foreign.cast::<u8>().write(5) };
    for block in blocks {
        // SAFETY: a block of as many bytes, which was filled, and is freed once.
        unsafe {
            let grown = heap.realloc(block.expose_provenance(), 3 << 20, 1).unwrap();
            assert!(grown.is_null() || grown.add((1 << 20) - 1).read() == 7);
            let rest = if grown.is_null() { block } else { grown };
            heap.free(rest.expose_provenance()).unwrap();
        }
    }
    drop(heap);
    // SAFETY: this test's mapping.
    unsafe {
        assert_eq!(foreign.cast::<u8>().read(), 5);
        libc::munmap(foreign, bytes / 4);
    }
}
