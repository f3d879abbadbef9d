//! Large memory by address, as a malloc needs it.

use crate::color::{LINE, color, is_color};
use crate::exact;
use crate::pace::Pace;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc_linux::{
    CHUNK_PAGES, DrainStatus, Error, FreeError, Kind, LinuxOptions, PageRange, Request, Resize, SharedSpace,
    SpaceOptions, open, page_bytes,
};

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

/// Freed memory that may stay cached however little is in use: with what is freed until the next
/// look, and the program itself, an idle program keeps less than 32 MiB.
const IDLE_CACHED: usize = 16 << 20;

fn least_cached_pages() -> u64 {
    (LEAST_CACHED / page_bytes()) as u64
}

/// Returns the pages that may be cached beside `in_use` pages: a third, as where memory is dear,
/// but no less than [`LEAST_CACHED`].
fn cached_beside(in_use: u64) -> u64 {
    (in_use / 3).max(least_cached_pages())
}

/// How much larger a cached block may be that serves a request once the budget is mostly used: two
/// classes of sizes. With a quarter, numpy's live set takes 11 % more page faults and 10 MiB more;
/// with the double, 2 % fewer (`cargo xtask preload --bench --only live_set`).
const SLACK_PERCENT: u8 = 50;

/// Large blocks of memory from a space of its own, which decays while it is used.
#[derive(Debug)]
pub struct LargeHeap {
    space: SharedSpace,
    base: usize,
    bytes: AtomicUsize,
    /// The bits of an address that are a place in its page.
    offset_mask: usize,
    pace: Pace,
    /// True if the system counts what is opened, used or not.
    is_charged: bool,
    /// True if blocks end with their pages.
    is_exact: bool,
}

impl LargeHeap {
    /// Returns the options of a space that is a malloc: up to `cache_bytes` of freed memory stay
    /// cached, but little more than 4 MiB of what a program leaves behind as it grows.
    pub fn space_options(cache_bytes: usize) -> SpaceOptions {
        // As many lazy pages start a purge as are cached in any case.
        let options = SpaceOptions::default().lazy_max_pages(least_cached_pages());
        let options = options.max_slack_percent(SLACK_PERCENT).cache_bytes(cache_bytes);
        // Without a policy all of a budget may be cached in any case.
        if cache_bytes > LEAST_CACHED { options.cached_beside(cached_beside) } else { options }
    }

    /// Reserves addresses and opens a space on them. Freed memory decays every `decay_ms`
    /// milliseconds, or never for 0, as long as the program frees some. Where the options allow a
    /// drain thread, that does it.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind.
    pub fn open(linux: LinuxOptions, space: SpaceOptions, decay_ms: u64) -> Result<Self, Error> {
        let space = open(linux, space)?;
        let is_charged = space.platform().is_charged_for_chunks();
        let (span, shift) = (space.geometry().span, space.geometry().page_shift);
        let (base, bytes) = ((span.start() << shift) as usize, (span.len() << shift) as usize);
        Ok(Self {
            space,
            base,
            bytes: AtomicUsize::new(bytes),
            offset_mask: (1 << shift) - 1,
            pace: Pace::new(decay_ms),
            is_charged,
            is_exact: false,
        })
    }

    /// Has each block end at the end of its last page, as far as its alignment lets it, in an area
    /// of its own size with a tag that tells the block's. A resize moves the block. With guards and
    /// [`SpaceOptions::trap_on_free`], an access past a block or after its free traps at once.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { is_exact: true, ..self }
    }

    /// Returns true if `addr` lies in the reservation: one comparison.
    #[inline]
    #[must_use]
    pub fn contains(&self, addr: usize) -> bool {
        addr.wrapping_sub(self.base) < self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the first address and the size of the reservation.
    #[must_use]
    pub fn reservation(&self) -> (usize, usize) {
        (self.base, self.bytes.load(Ordering::Relaxed))
    }

    /// Gives back what is cached, and the end of the reservation: `least` bytes stay, or as much as
    /// is in use. `announce` is called with the new size before the addresses are unmapped, after
    /// which the kernel may map anything there.
    pub fn shrink(&self, least: usize, announce: impl FnOnce(usize)) {
        // What the system refuses stays, and so do the addresses below it.
        let _ = self.space.purge();
        let step = CHUNK_PAGES as usize * self.page_bytes();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut kept = least.max(step).checked_next_multiple_of(step).unwrap_or(usize::MAX);
        while kept < bytes {
            let end = Request::new(bytes - kept).guard(false).may_block(false);
            let end = end.within(self.base + kept, self.base + bytes);
            if let Ok(addr) = self.space.raw().reserve(&end) {
                self.bytes.store(kept, Ordering::Relaxed);
                announce(kept);
                let pages = (bytes - kept) / self.page_bytes();
                if let Some(range) = PageRange::from_len(self.page(addr), pages as u64) {
                    // If the system refuses, the addresses are of no use to anybody.
                    // SAFETY: reserved above, for ever.
                    let _ = unsafe { self.space.platform().give_up(range) };
                }
                return;
            }
            kept = kept.saturating_mul(2);
        }
    }

    /// Closes the chunks of addresses that are free: the system does not count them as memory to
    /// come any more. A drain does so where overcommit is strict.
    pub fn close_unused(&self) {
        let (space, page) = (&*self.space, self.page_bytes());
        for chunk in space.platform().open_chunks() {
            let [start, end] = [chunk.start(), chunk.end()].map(|at| at as usize * page);
            let whole = Request::new(end - start).guard(false).within(start, end).may_block(false);
            // It is refused where something is in use or cached.
            let Ok(addr) = space.raw().reserve(&whole) else { continue };
            // SAFETY: reserved in the line above. What the system refuses stays open.
            let _ = unsafe { space.platform().close_chunk(chunk) };
            // SAFETY: reserved above, for this alone. Without memory to note it, it is lost.
            let _ = unsafe { space.raw().unreserve(addr) };
        }
    }

    /// Returns how many blocks are in use, and their bytes.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize) {
        let (stats, span) = (self.space.stats(), self.space.geometry().span.len());
        let given_up = span - (self.bytes.load(Ordering::Relaxed) / self.page_bytes()) as u64;
        let blocks = self.space.areas().filter(|area| area.kind != Kind::Reserved);
        let count = if given_up == 0 { stats.busy_areas as usize } else { blocks.count() };
        (count, self.bytes_of(stats.busy_pages.saturating_sub(given_up)))
    }

    /// Returns the bytes of a page: the most that a block is aligned to as it moves.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.offset_mask + 1
    }

    /// Returns the space.
    #[must_use]
    pub fn space(&self) -> &SharedSpace {
        &self.space
    }

    /// Allocates `bytes` bytes at a multiple of `align`, a power of two, of any content. Returns
    /// null when there are none.
    #[inline]
    #[must_use]
    pub fn alloc(&self, bytes: usize, align: usize) -> *mut u8 {
        let Some(request) = self.request(bytes, align) else { return ptr::null_mut() };
        self.start_in(self.memory(&request), bytes, align)
    }

    /// Allocates `bytes` zeros at a multiple of `align`, a power of two. Returns null when there
    /// are none. New pages are zero already; cached ones are cleared, or given back if they are
    /// many.
    #[must_use]
    pub fn alloc_zeroed(&self, bytes: usize, align: usize) -> *mut u8 {
        let (Some(block), Some(request)) = (self.block_size(bytes), self.request(bytes, align)) else {
            return ptr::null_mut();
        };
        if block < FRESH_ZEROS_FROM || self.is_exact {
            return self.start_in(self.memory(&request.zeroed()), bytes, align);
        }
        let memory = self.memory(&request);
        let range = memory.addr()..memory.addr() + block;
        // SAFETY: the area was just allocated for this caller alone.
        if range.start != 0 && unsafe { self.space.raw().discard(std::slice::from_ref(&range)) }.is_err() {
            // SAFETY: as above: mapped memory of `block` bytes.
            unsafe { memory.write_bytes(0, block) };
        }
        memory
    }

    /// Returns the request for the area of a block; `None` beyond all memory.
    #[inline]
    fn request(&self, bytes: usize, align: usize) -> Option<Request> {
        let request = Request::new(self.block_size(bytes)?).align(align);
        if !self.is_exact {
            return Some(request);
        }
        Some(exact::noted(request, bytes, exact::offset(bytes, align, self.offset_mask)))
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
        match self.pace.due() {
            0 => {}
            due => self.drain(due),
        }
        let base = self.base_of(addr)?;
        let bytes = self.space.usable_size(base).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe { self.space.raw().free(base) }.map_err(|error| named(addr, error))?;
        if self.pace.has_freed_much(bytes) {
            self.keep_no_more_than_is_in_use();
        }
        Ok(())
    }

    /// Gives back as much of what is cached as is more than what is in use, and more than
    /// [`IDLE_CACHED`]: after a burst there may be no other call.
    #[cold]
    fn keep_no_more_than_is_in_use(&self) {
        let least = (IDLE_CACHED / self.page_bytes()) as u64;
        loop {
            let stats = self.space.stats();
            let excess = stats.cached_pages.saturating_sub(stats.busy_pages.max(least));
            // Of areas of all sizes: another round takes what these leave.
            let areas = (stats.cached_areas * excess).div_ceil(stats.cached_pages.max(1));
            // What the system refuses stays lazy, and the next drain tries it again.
            if excess == 0 || !self.space.shrink(areas).is_ok_and(|evicted| evicted != 0) {
                return;
            }
        }
    }

    /// Frees the block at `addr`, and drops what the program has changed about its pages: advice
    /// such as `MADV_DONTFORK`, protection, locks. It is never cached.
    ///
    /// # Safety
    /// That of [`free`](Self::free).
    ///
    /// # Errors
    /// [`FreeError`] when no block starts there, or there is no memory to note it; nothing is
    /// changed.
    pub unsafe fn free_altered(&self, addr: usize) -> Result<(), FreeError> {
        let base = self.base_of(addr)?;
        // SAFETY: the caller's promise.
        unsafe { self.space.raw().free_altered(base) }.map_err(|error| named(addr, error))
    }

    /// Returns the addresses of the pages of the block at `addr`; `None` if no block starts there.
    #[must_use]
    pub fn area(&self, addr: usize) -> Option<Range<usize>> {
        let (base, bytes) = self.area_of(addr).ok()?;
        Some(base..base + bytes)
    }

    /// Returns the first byte of the area of the block at `addr`.
    #[inline]
    fn base_of(&self, addr: usize) -> Result<usize, FreeError> {
        let base = addr & !self.offset_mask;
        if is_color(base, addr - base) && !self.is_exact { Ok(base) } else { self.base_of_moved(addr, base) }
    }

    /// Returns the first byte of the area of a block whose pages were moved: it has the color of
    /// the place where it was before.
    #[cold]
    fn base_of_moved(&self, addr: usize, base: usize) -> Result<usize, FreeError> {
        match self.space.find(addr) {
            Some(area) if area.addr != base => Err(FreeError::Interior { addr, start: area.addr }),
            Some(area) if self.is_exact && area.record == (addr - base) as u64 => Ok(base),
            Some(_) if self.is_exact => Err(FreeError::Unaligned { addr }),
            Some(area) if addr % LINE == 0 && self.bytes_of(area.pages) >= MOVE_PAGES_FROM => Ok(base),
            Some(_) => Err(FreeError::Unaligned { addr }),
            None => Err(FreeError::NotAnArea { addr }),
        }
    }

    #[cold]
    fn drain(&self, due: u64) {
        // Areas that the system refuses stay lazy, and the next drain tries them again.
        let _ = (0..due).try_for_each(|_| match self.space.drain() {
            Ok(DrainStatus::More) => Ok(()),
            end => Err(end),
        });
        if self.is_charged {
            self.close_unused();
        }
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
        if self.is_exact {
            // SAFETY: the caller's block, which has `old - color` bytes.
            return unsafe { self.copy(addr, (old - color).min(bytes), bytes, align) };
        }
        let needed = bytes.saturating_add(color);
        let Some(new) = self.block_size(needed) else { return Ok(ptr::null_mut()) };
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
        let resized = unsafe { self.space.raw().realloc(base, &Resize::new(new).align(align)) };
        Ok(resized.map_or(ptr::null_mut(), |base| ptr::with_exposed_provenance_mut(base + color)))
    }

    /// Returns the first byte and the size of the area of the block at `addr`, or what a free of it
    /// would be refused for.
    fn area_of(&self, addr: usize) -> Result<(usize, usize), FreeError> {
        let base = self.base_of(addr)?;
        match self.space.find(base) {
            Some(area) if area.addr == base => Ok((base, self.bytes_of(area.pages))),
            Some(area) => Err(FreeError::Interior { addr, start: area.addr }),
            None => Err(FreeError::NotAnArea { addr }),
        }
    }

    /// Returns the start of a block of `bytes` bytes in `area`, which is null for none.
    #[inline]
    fn start_in(&self, area: *mut u8, bytes: usize, align: usize) -> *mut u8 {
        if self.is_exact && !area.is_null() {
            return area.wrapping_add(exact::offset(bytes, align, self.offset_mask));
        }
        if align > LINE {
            return area;
        }
        // No page more is touched than without it.
        area.wrapping_add(color(area.addr(), bytes.wrapping_neg() & self.offset_mask))
    }

    /// Returns the size of a block for `bytes` bytes: whole pages, and up to a quarter more, so
    /// that freed blocks serve requests of about their size; `None` beyond all memory. The pages
    /// that were not asked for cost addresses until somebody touches them.
    #[inline]
    fn block_size(&self, bytes: usize) -> Option<usize> {
        let page = self.page_bytes();
        let highest = bytes.max(page).ilog2();
        let unit = if self.is_exact { page } else { page.max(1 << (highest - CLASS_BITS)) };
        bytes.max(1).checked_next_multiple_of(unit).filter(|&bytes| isize::try_from(bytes).is_ok())
    }

    fn page(&self, addr: usize) -> u64 {
        (addr / self.page_bytes()) as u64
    }

    fn bytes_of(&self, pages: u64) -> usize {
        pages as usize * self.page_bytes()
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

/// Returns the refusal to free an area as that of the block at `addr`.
#[cold]
fn named(addr: usize, error: FreeError) -> FreeError {
    match error {
        FreeError::NotAnArea { .. } => FreeError::NotAnArea { addr },
        FreeError::Interior { start, .. } => FreeError::Interior { addr, start },
        FreeError::AlreadyFreed { .. } => FreeError::AlreadyFreed { addr },
        FreeError::NoMemory { .. } => FreeError::NoMemory { addr },
        error => error,
    }
}

// Miri has neither /proc nor the calls that a space on Linux takes.
#[cfg(all(test, not(loom), not(miri)))]
mod tests;
