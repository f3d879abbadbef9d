//! Large memory by address, as a malloc needs it.

use crate::color::{LINE, color, is_color};
use crate::pace::Pace;
use std::ptr;
use std::sync::Arc;
use vmalloc_linux::{Config, FreeError, Linux, OpenError, Options, Request, Space, open};

/// The size from which on memory comes from the space: eight pages. Below, a page more or less
/// would be a large part.
pub const DEFAULT_THRESHOLD: usize = 32 << 10;

/// The size from which on a block that has to move gets its pages moved. Below, it is copied into
/// cached memory. With 64 KiB instead, redis takes as long and as much memory (`cargo xtask preload
/// --bench --only redis`), and each move costs a mapping.
const MOVE_PAGES_FROM: usize = 512 << 10;

/// The size from which on zeros are fresh pages instead of cached ones that are cleared: a block as
/// large is often used in part, and glibc maps it as well (its largest `M_MMAP_THRESHOLD`).
const FRESH_ZEROS_FROM: usize = 32 << 20;

/// A block that shrinks by less than this part of it stays as it is.
const SHRINK_PART: usize = 8;

/// Sizes of blocks from a power of two up to the next one: 4, as its binary logarithm.
const CLASS_BITS: u32 = 2;

/// Freed memory that stays cached in any case. More follows what is in use, and what the program
/// asks for again: redis leaves sizes behind as its values grow, and 40 MB of them would stay.
const LEAST_CACHED: usize = 4 << 20;
/// Lazy pages that start a purge: as many as are cached in any case.
const LAZY_PAGES: u64 = LEAST_CACHED as u64 >> 12;

/// How much larger a cached block may be that serves a request once the budget is mostly used: two
/// classes of sizes. With a quarter, numpy's live set takes 11 % more page faults and 10 MiB more;
/// with the double, 2 % fewer (`cargo xtask preload --bench --only live_set`).
const SLACK_PERCENT: u8 = 50;

/// The pages of the machine.
pub(crate) const PAGE: usize = 4096;

/// Large blocks of memory from a space of its own, which decays while it is used.
#[derive(Debug)]
pub struct LargeHeap {
    space: Arc<Space<Linux>>,
    base: usize,
    bytes: usize,
    pace: Pace,
}

impl LargeHeap {
    /// Returns the settings of a space that is a malloc: up to `cache_bytes` of freed memory stay
    /// cached in blocks of up to 1 MiB, and twice as many in larger ones, but little more than 4
    /// MiB of what a program leaves behind as it grows.
    pub fn config(cache_bytes: usize) -> Config {
        let config = Config::default().lazy_max_pages(LAZY_PAGES).max_slack_percent(SLACK_PERCENT);
        config.cache_bytes(cache_bytes).least_cache_bytes(LEAST_CACHED)
    }

    /// Reserves addresses and opens a space on them. Freed memory decays at `pace`, unless the
    /// options allow a drain thread, which does it then.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn open(options: Options, config: Config, pace: Pace) -> Result<Self, OpenError> {
        let space = open(options, config)?;
        let (span, shift) = (space.geometry().span, space.geometry().page_shift);
        let (base, bytes) = ((span.start() << shift) as usize, (span.len() << shift) as usize);
        Ok(Self { space, base, bytes, pace })
    }

    /// Returns true if `addr` lies in the reservation: one comparison.
    #[inline]
    #[must_use]
    pub fn contains(&self, addr: usize) -> bool {
        addr.wrapping_sub(self.base) < self.bytes
    }

    /// Returns the first address and the size of the reservation.
    #[must_use]
    pub fn reservation(&self) -> (usize, usize) {
        (self.base, self.bytes)
    }

    /// Returns the space.
    #[must_use]
    pub fn space(&self) -> &Arc<Space<Linux>> {
        &self.space
    }

    /// Allocates `bytes` bytes at a multiple of `align`, a power of two, of any content. Returns
    /// null when there are none.
    #[inline]
    #[must_use]
    pub fn alloc(&self, bytes: usize, align: usize) -> *mut u8 {
        let Some(block) = block_size(bytes) else { return ptr::null_mut() };
        start_in(self.memory(&Request::new(block).align(align)), bytes, align)
    }

    /// Allocates `bytes` zeros at a multiple of `align`, a power of two. Returns null when there
    /// are none. New pages are zero already; cached ones are cleared, or given back if they are
    /// many.
    #[must_use]
    pub fn alloc_zeroed(&self, bytes: usize, align: usize) -> *mut u8 {
        let Some(block) = block_size(bytes) else { return ptr::null_mut() };
        if block < FRESH_ZEROS_FROM {
            return start_in(self.memory(&Request::new(block).align(align).zeroed()), bytes, align);
        }
        let memory = self.memory(&Request::new(block).align(align));
        let range = memory.addr()..memory.addr() + block;
        // SAFETY: the area was just allocated for this caller alone.
        if range.start != 0 && unsafe { self.space.raw().discard(std::slice::from_ref(&range)) }.is_err() {
            // SAFETY: as above: mapped memory of `block` bytes.
            unsafe { memory.write_bytes(0, block) };
        }
        memory
    }

    #[inline]
    fn memory(&self, request: &Request) -> *mut u8 {
        self.space.raw().alloc(request).map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
    }

    /// Frees the block at `addr`, after giving back what has aged if that is due: a program that
    /// allocates and frees one block all the time keeps it.
    ///
    /// # Safety
    /// The caller owns the block, and nothing uses it any more.
    ///
    /// # Errors
    /// [`FreeError`] when no block starts there; nothing is changed.
    #[inline]
    pub unsafe fn free(&self, addr: usize) -> Result<(), FreeError> {
        if self.pace.is_due() {
            self.drain();
        }
        let base = self.base_of(addr)?;
        // SAFETY: the caller's promise.
        unsafe { self.space.raw().free(base) }
    }

    /// Returns the first byte of the area of the block at `addr`.
    #[inline]
    fn base_of(&self, addr: usize) -> Result<usize, FreeError> {
        let base = addr & !(PAGE - 1);
        if is_color(base, addr - base) { Ok(base) } else { self.base_of_moved(addr, base) }
    }

    /// Returns the first byte of the area of a block whose pages were moved: it has the color of
    /// the place where it was before.
    #[cold]
    fn base_of_moved(&self, addr: usize, base: usize) -> Result<usize, FreeError> {
        match self.space.find(addr) {
            Some(area) if area.addr != base => {
                Err(FreeError::Interior { page: page(addr), start: page(area.addr) })
            }
            Some(area) if addr.is_multiple_of(LINE) && area.pages as usize * PAGE >= MOVE_PAGES_FROM => {
                Ok(base)
            }
            _ => Err(FreeError::Unaligned { addr }),
        }
    }

    #[cold]
    fn drain(&self) {
        // Areas that the system refuses stay lazy, and the next drain tries them again.
        let _ = self.space.drain();
    }

    /// Returns how many bytes the block at `addr` has; `None` if no block starts there.
    #[must_use]
    pub fn usable_size(&self, addr: usize) -> Option<usize> {
        let base = self.base_of(addr).ok()?;
        Some(self.space.usable_size(base)? - (addr - base))
    }

    /// Gives the block at `addr`, which was allocated with `align`, a size of `bytes`, of which the
    /// content is kept as far as it fits. Returns where it is now, or null when there is no memory;
    /// then nothing is changed. A larger block grows in place where there is room, or its pages
    /// move, or it is copied. A smaller one gives pages back.
    ///
    /// # Safety
    /// The caller owns the block. If another address is returned nothing uses the old one any more.
    ///
    /// # Errors
    /// [`FreeError`] when no block starts there; nothing is changed.
    pub unsafe fn realloc(&self, addr: usize, bytes: usize, align: usize) -> Result<*mut u8, FreeError> {
        let (base, old) = self.area_of(addr)?;
        let color = addr - base;
        let needed = bytes.saturating_add(color);
        let Some(new) = block_size(needed) else { return Ok(ptr::null_mut()) };
        if needed <= old && old.saturating_sub(new) <= old / SHRINK_PART {
            return Ok(ptr::with_exposed_provenance_mut(addr));
        }
        // A smaller block has its own color.
        let keeps_color = needed <= old && is_color(base, color);
        if new < MOVE_PAGES_FROM && !keeps_color {
            // SAFETY: the caller's block, which has `old - color` bytes.
            return unsafe { self.copy(addr, (old - color).min(bytes), bytes, align) };
        }
        // SAFETY: the caller's promise.
        let resized = unsafe { self.space.raw().realloc(base, &Request::new(new).align(align)) };
        Ok(resized.map_or(ptr::null_mut(), |base| ptr::with_exposed_provenance_mut(base + color)))
    }

    /// Returns the first byte and the size of the area of the block at `addr`, or what a free of it
    /// would be refused for.
    fn area_of(&self, addr: usize) -> Result<(usize, usize), FreeError> {
        let base = self.base_of(addr)?;
        match self.space.find(base) {
            Some(area) if area.addr == base => Ok((base, area.pages as usize * PAGE)),
            Some(area) => Err(FreeError::Interior { page: page(base), start: page(area.addr) }),
            None => Err(FreeError::NotAnArea { page: page(base) }),
        }
    }

    /// Copies a block to a new one of `new` bytes, and frees it. Without memory to remember that,
    /// the old block is lost, which is no reason to refuse the new one.
    ///
    /// # Safety
    /// The caller owns the block at `addr` of `old` bytes, which are no more than `new`.
    unsafe fn copy(&self, addr: usize, old: usize, new: usize, align: usize) -> Result<*mut u8, FreeError> {
        let to = self.alloc(new, align);
        if to.is_null() {
            return Ok(to);
        }
        // SAFETY: both blocks are this caller's, and `to` has at least `old` bytes.
        unsafe { ptr::copy_nonoverlapping(ptr::with_exposed_provenance(addr), to, old) };
        // SAFETY: the caller's block, of which the content is elsewhere now.
        match unsafe { self.free(addr) } {
            Ok(()) | Err(FreeError::NoMemory { .. }) => Ok(to),
            Err(error) => {
                // SAFETY: allocated above, and no other thread has seen it.
                let _ = unsafe { self.free(to.expose_provenance()) };
                Err(error)
            }
        }
    }
}

/// Returns the start of a block of `bytes` bytes in `area`, which is null for none.
#[inline]
fn start_in(area: *mut u8, bytes: usize, align: usize) -> *mut u8 {
    if align > LINE {
        return area;
    }
    // No page more is touched than without it.
    area.wrapping_add(color(area.addr(), bytes.wrapping_neg() % PAGE))
}

fn page(addr: usize) -> u64 {
    (addr / PAGE) as u64
}

/// Returns the size of a block for `bytes` bytes: whole pages, and up to a quarter more, so that
/// freed blocks serve requests of about their size; `None` beyond all memory. The pages that were
/// not asked for cost addresses until somebody touches them.
#[inline]
fn block_size(bytes: usize) -> Option<usize> {
    let highest = bytes.max(PAGE).ilog2();
    let unit = PAGE.max(1 << (highest - CLASS_BITS));
    bytes.max(1).checked_next_multiple_of(unit).filter(|&bytes| isize::try_from(bytes).is_ok())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_block_that_was_just_freed_has_not_aged() {
        let options = Options::new().max_bytes(1 << 34).without_drain_thread().frame_bytes(0);
        let heap = LargeHeap::open(options, Config::default(), Pace::new(1)).unwrap();
        for _ in 0..5 {
            // The next free is due to drain.
            sleep(Duration::from_millis(3));
            let block = heap.alloc(8 << 20, 1).expose_provenance();
            // SAFETY: allocated in the line above.
            unsafe { heap.free(block) }.unwrap();
            assert_eq!(heap.space().stats().cached_areas, 1);
        }
    }

    /// Returns a heap as that of the library to preload, without decay.
    fn heap() -> LargeHeap {
        let options = Options::new().max_bytes(1 << 34).without_drain_thread().frame_bytes(0);
        LargeHeap::open(options, LargeHeap::config(128 << 20).guard(false), Pace::new(0)).unwrap()
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
            assert!(self.addr.is_multiple_of(self.align.max(16)));
            let (usable, area) =
                (heap.usable_size(self.addr).unwrap(), heap.space().find(self.addr).unwrap());
            assert!(usable >= self.bytes && self.addr + usable == area.addr + area.pages as usize * PAGE);
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
    fn blocks_keep_their_content() {
        let heap = heap();
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let mut blocks: Vec<Filled> = Vec::new();
        for step in 0..3000 {
            let most = 1 << (13 + next(10));
            let (bytes, nth) = (4096 + next(most), next(blocks.len() + 1));
            let block = match step % 3 {
                0 => Filled::new(&heap, bytes, [1, 64, 128, 4096][next(4)]),
                _ if nth < blocks.len() => blocks.swap_remove(nth).resize(&heap, bytes),
                _ => continue,
            };
            blocks.push(block);
            if blocks.len() > 60 {
                blocks.swap_remove(nth).free(&heap);
            }
        }
        blocks.into_iter().for_each(|block| block.free(&heap));
        assert_eq!(heap.space().stats().busy_areas, 0);
    }

    #[test]
    fn blocks_start_at_many_places_and_touch_no_page_more() {
        let heap = heap();
        let bytes = 40_000;
        let starts: std::collections::HashSet<_> =
            (0..100).map(|_| heap.alloc(bytes, 16).addr() % PAGE).collect();
        // 10 pages leave 960 bytes: 16 starts.
        assert_eq!(starts.len(), 16);
        assert!(starts.iter().all(|start| start.is_multiple_of(LINE) && start + bytes <= 10 * PAGE));
        for (bytes, align) in [(10 * PAGE, 1), (bytes, 128), (1 << 20, 1)] {
            assert!((0..100).all(|_| heap.alloc(bytes, align).addr().is_multiple_of(PAGE)));
        }
    }

    #[test]
    fn an_address_inside_a_block_is_told_from_its_start() {
        let heap = heap();
        let block = heap.alloc(40_000, 1).expose_provenance();
        let first = page(block);
        let base = block & !(PAGE - 1);
        let line = (0..PAGE).step_by(LINE).find(|&line| !is_color(base, line)).unwrap();
        for inside in [base + line, block + 8, block + PAGE, block + 5 * PAGE + 1] {
            let interior = match page(inside) == first {
                true => FreeError::Unaligned { addr: inside },
                false => FreeError::Interior { page: page(inside), start: first },
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
        assert_eq!(unsafe { heap.free(block) }, Err(FreeError::AlreadyFreed { page: first }));
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
            let blocks = sizes.map(|bytes| heap.alloc(bytes, 1).expose_provenance());
            // SAFETY: allocated in the line above.
            blocks.iter().for_each(|&block| unsafe { heap.free(block) }.unwrap());
            // It grows all the time.
            assert!(!heap.alloc(60_000, 1).is_null());
            let stats = heap.space().stats();
            assert!(round == 0 || stats.cached_areas == 3, "round {round}: {stats:?}");
        }
    }
}
