//! The space: areas of one span of addresses, on a platform's memory.
//!
//! ```text
//!   alloc:   check ─► retained area of this size? ──yes──► revive
//!                          │no
//!                          ▼
//!                     area map: lowest fit ──full──► purge all, wait, once more ──full──► error
//!                          │
//!                          ▼
//!                     platform: map ──fails──► free the area, purge all, once more ──fails──► error
//!
//!   vfree:   retire ─► retained (budget) or lazy ─► above the threshold: purge      (see `purge`)
//! ```
//!
//! # Locks
//! - `purge_lock`, taken first: one purge at a time. It is held over calls of the platform.
//! - `state`, taken last and briefly: the area map and everything counted beside it. Nothing foreign runs under it.
//!
//! # Records
//! An area's range and state are bits in the area map. What else is known of it (a caller's tag, bytes less than
//! whole pages, a missing guard, another kind than [`Kind::Vmalloc`]) is a *note*, and plain areas have none.

mod buffer;
mod info;
mod purge;
mod request;
mod retained;

pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use info::{AreaInfo, Areas, Stats, Vmallocinfo};
pub use request::Request;

use crate::addr::PageRange;
use crate::area_map::{AreaMap, State as SegmentState, Violation};
use crate::error::{AllocError, FreeError, PlatformError};
use crate::platform::{DirectMemory, Platform, Protection, Translate};
use crate::request::Policy;
use alloc::vec::Vec;
use core::ptr::NonNull;
use hashbrown::HashMap;
use request::Checked;
use retained::Retained;

/// Settings of a space.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Put an unmapped guard page behind every area. Default: yes.
    pub guard: bool,
    /// Keep the pages of freed areas for reuse, up to this many bytes in all: fast, but a use after free is not
    /// trapped while the area is kept. 0 = unmap on free: it traps as soon as the purge has run. Default: 64 MiB.
    pub retain_bytes: usize,
    /// Lazy pages that start a purge. 0 = 32 MiB for each bit of the number of CPUs, as in Linux. Default: 0.
    pub lazy_max_pages: u64,
    /// Where areas are placed. Default: lowest first.
    pub policy: Policy,
}

impl Default for Config {
    fn default() -> Self {
        Self { guard: true, retain_bytes: 64 << 20, lazy_max_pages: 0, policy: Policy::Lowest }
    }
}

impl Config {
    /// The same without retention: what is freed is unmapped at the next purge.
    #[must_use]
    pub fn unmap_on_free(mut self) -> Self {
        self.retain_bytes = 0;
        self
    }

    /// The same with another budget for retained areas, in bytes.
    #[must_use]
    pub fn retain(mut self, bytes: usize) -> Self {
        self.retain_bytes = bytes;
        self
    }

    /// The same with another threshold of lazy pages.
    #[must_use]
    pub fn lazy_max(mut self, pages: u64) -> Self {
        self.lazy_max_pages = pages;
        self
    }

    /// The same with another placement.
    #[must_use]
    pub fn place(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same without guard pages, unless a request asks for one.
    #[must_use]
    pub fn without_guards(mut self) -> Self {
        self.guard = false;
        self
    }
}

/// What an area is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Memory of its own.
    Vmalloc,
    /// Addresses only.
    Reserved,
}

/// What is not in the area map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Note {
    kind: Kind,
    guard_pages: u64,
    slack: u32,
    tag: Option<&'static str>,
}

/// What the lock protects.
struct State {
    map: AreaMap,
    notes: HashMap<u64, Note>,
    retained: Retained,
    /// Freed, not yet unmapped.
    lazy: Vec<PageRange>,
    /// Lazy areas whose purge failed.
    stuck: Vec<PageRange>,
    /// Lazy in any of these two or under purge.
    lazy_pages: u64,
    lazy_areas: u64,
    busy_pages: u64,
    busy_areas: u64,
    purges: u64,
    purged_areas: u64,
    /// The most areas given back under one hold of the lock.
    longest_hold: u64,
}

/// One span of addresses on a platform's memory. All methods may be called from any thread.
pub struct Space<P: Platform> {
    platform: P,
    config: Config,
    shift: u32,
    lazy_max: u64,
    purge_lock: lock_api::Mutex<P::RawLock, ()>,
    state: lock_api::Mutex<P::RawLock, State>,
}

/// `ceil(log2)` + 1 in the kernel's sense: the position of the highest bit, counted from one.
fn fls(value: usize) -> u64 {
    u64::from(usize::BITS - value.leading_zeros())
}

impl<P: Platform> Space<P> {
    /// A space over the platform's span.
    ///
    /// # Errors
    /// [`AllocError::Metadata`].
    pub fn new(platform: P, config: Config) -> Result<Self, AllocError> {
        let shift = platform.page_shift();
        let map = AreaMap::new(platform.span())?;
        let lazy_max = match config.lazy_max_pages {
            0 => (32 << 20 >> shift) * fls(platform.cpus()),
            pages => pages,
        };
        let state = State {
            map,
            notes: HashMap::new(),
            retained: Retained::new((config.retain_bytes >> shift) as u64),
            lazy: Vec::new(),
            stuck: Vec::new(),
            lazy_pages: 0,
            lazy_areas: 0,
            busy_pages: 0,
            busy_areas: 0,
            purges: 0,
            purged_areas: 0,
            longest_hold: 0,
        };
        let (purge_lock, state) = (lock_api::Mutex::new(()), lock_api::Mutex::new(state));
        Ok(Self { platform, config, shift, lazy_max, purge_lock, state })
    }

    /// The platform below.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Allocates memory; its address. O(log n) and one call of the platform; O(1) and none when a retained area
    /// of the size is at hand.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let note = Note {
            kind: Kind::Vmalloc,
            guard_pages: checked.guard_pages,
            slack: checked.slack,
            tag: request.tag,
        };
        if let Some(area) = self.take_retained(&checked, note)? {
            if request.content == request::Content::Zeros {
                // SAFETY: the area was just taken for this caller alone, and retained areas are mapped.
                unsafe { self.platform.zero(self.payload(area, checked.guard_pages)) };
            }
            return Ok(self.addr(area.start()));
        }
        let area = self.claim(&checked, note)?;
        self.back(area, &checked, note)
    }

    /// Reserves addresses without memory; the first. For mappings of one's own, I/O addresses, and the like.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn reserve(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let note = Note {
            kind: Kind::Reserved,
            guard_pages: checked.guard_pages,
            slack: checked.slack,
            tag: request.tag,
        };
        Ok(self.addr(self.claim(&checked, note)?.start()))
    }

    /// Frees the memory that [`alloc`](Self::alloc) or a relative returned at `addr`. O(1), and now and then a
    /// purge, which nobody else waits for.
    ///
    /// # Safety
    /// Nothing may use the memory any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[inline]
    pub unsafe fn vfree(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let mut state = self.state.lock();
        let (area, guard_pages) = state.retire(page, Kind::Vmalloc, self.config.guard)?;
        // Only areas with the usual guard are kept: every area of a size can then stand in for every other.
        if guard_pages == u64::from(self.config.guard) && state.retained.keep(area) {
            return Ok(());
        }
        self.make_lazy(state, area);
        Ok(())
    }

    /// Frees the addresses that [`reserve`](Self::reserve) returned at `addr`. They are flushed before reuse, like
    /// any others.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub fn unreserve(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let mut state = self.state.lock();
        let (area, _) = state.retire(page, Kind::Reserved, self.config.guard)?;
        self.make_lazy(state, area);
        Ok(())
    }

    /// Enters a retired area in the lazy set.
    fn make_lazy(&self, mut state: lock_api::MutexGuard<'_, P::RawLock, State>, area: PageRange) {
        state.lazy_pages += area.len();
        state.lazy_areas += 1;
        if state.lazy.try_reserve(1).is_err() {
            drop(state);
            return self.purge_one(area);
        }
        state.lazy.push(area);
        let due = state.lazy_pages > self.lazy_max;
        drop(state);
        if due {
            self.purge_if_idle();
        }
    }

    /// Hands a retained area out again.
    #[inline]
    fn take_retained(&self, checked: &Checked, note: Note) -> Result<Option<PageRange>, AllocError> {
        let fit = &checked.fit;
        let usual = checked.guard_pages == u64::from(self.config.guard);
        if self.config.retain_bytes == 0 || !usual || fit.lowest_order().is_none() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        state.reserve_note(&note, self.config.guard)?;
        let Some(start) = state.retained.take(fit.pages(), fit.alignment()) else { return Ok(None) };
        match state.map.revive(start) {
            Ok(area) => {
                state.enter(area, note, self.config.guard);
                Ok(Some(area))
            }
            Err(damage) => self.platform.fatal(&damage),
        }
    }

    /// A busy area, not mapped yet. When there is no room for it, everything freed is given back first.
    fn claim(&self, checked: &Checked, note: Note) -> Result<PageRange, AllocError> {
        let mut fit = checked.fit;
        if let Policy::Random { seed } = fit.placement() {
            fit = fit.policy(Policy::Random { seed: seed ^ self.platform.entropy() });
        }
        match self.try_claim(&fit, note) {
            Err(AllocError::NoSpace(_)) => {
                // Should the platform fail here, less is free than could be: the retry tells.
                let _ = self.purge();
                self.try_claim(&fit, note)
            }
            result => result,
        }
    }

    fn try_claim(&self, fit: &crate::request::Fit, note: Note) -> Result<PageRange, AllocError> {
        let mut state = self.state.lock();
        state.reserve_note(&note, self.config.guard)?;
        let area = state.map.alloc(fit)?;
        state.enter(area, note, self.config.guard);
        Ok(area)
    }

    /// Puts pages behind a claimed area. When there are none, everything retained is given back first.
    fn back(&self, area: PageRange, checked: &Checked, note: Note) -> Result<usize, AllocError> {
        let Err(error) = self.map(area, checked) else { return Ok(self.addr(area.start())) };
        self.unclaim(area);
        if self.purge().is_err() {
            return Err(error.into());
        }
        let area = self.claim(checked, note)?;
        self.map(area, checked).map_err(|error| {
            self.unclaim(area);
            AllocError::from(error)
        })?;
        Ok(self.addr(area.start()))
    }

    fn map(&self, area: PageRange, checked: &Checked) -> Result<(), PlatformError> {
        let payload = self.payload(area, checked.guard_pages);
        // SAFETY: the area was claimed for this caller alone.
        unsafe { self.platform.map(payload, Protection::ReadWrite) }
    }

    /// Frees an area that was never mapped: nothing to unmap, nothing to flush.
    fn unclaim(&self, area: PageRange) {
        let mut state = self.state.lock();
        let retired = state.retire(area.start(), Kind::Vmalloc, self.config.guard);
        let result = retired.and_then(|(area, _)| state.map.release(area.start()));
        if let Err(damage) = result {
            self.platform.fatal(&damage);
        }
    }

    /// The area's pages without its guard.
    fn payload(&self, area: PageRange, guard_pages: u64) -> PageRange {
        PageRange::of(area.start(), area.end() - guard_pages)
    }

    #[inline]
    fn addr(&self, page: u64) -> usize {
        (page << self.shift) as usize
    }

    /// The page that `addr` starts.
    #[inline]
    fn page(&self, addr: usize) -> Result<u64, FreeError> {
        if addr & ((1 << self.shift) - 1) != 0 {
            return Err(FreeError::Unaligned { addr });
        }
        Ok((addr >> self.shift) as u64)
    }

    /// Whether `addr` lies in this space, allocated or not. No lock.
    pub fn is_vmalloc_addr(&self, addr: usize) -> bool {
        self.platform.span().contains((addr >> self.shift) as u64)
    }

    /// Checks every invariant, and that the counts agree with the map. O(n), under the lock: for tests.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        let state = self.state.lock();
        state.map.verify()?;
        state.verify_counts()
    }

    /// Holds all locks of the space, for a `fork`: see [`resume`](Self::resume).
    pub fn quiesce(&self) {
        core::mem::forget(self.purge_lock.lock());
        core::mem::forget(self.state.lock());
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet `resume`.
    pub unsafe fn resume(&self) {
        // SAFETY: by the caller's promise this thread holds both locks.
        unsafe {
            self.state.force_unlock();
            self.purge_lock.force_unlock();
        }
    }
}

impl<P: DirectMemory> Space<P> {
    /// Allocates `bytes` bytes, of any content.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes)).map(|addr| self.pointer(addr))
    }

    /// Allocates `bytes` bytes of zeros.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vzalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes).zeroed()).map(|addr| self.pointer(addr))
    }

    fn pointer(&self, addr: usize) -> NonNull<u8> {
        match NonNull::new(core::ptr::with_exposed_provenance_mut(addr)) {
            Some(pointer) => pointer,
            None => self.platform.fatal(&"an area at address zero"),
        }
    }
}

impl<P: Translate> Space<P> {
    /// The physical frame behind `addr`, anywhere inside an area; `None` outside areas, on guard pages, where no
    /// page is yet, and where the machine does not tell.
    pub fn vmalloc_to_page(&self, addr: usize) -> Option<u64> {
        let area = self.find(addr)?;
        let page = (addr >> self.shift) as u64;
        let payload = PageRange::from_len((area.addr >> self.shift) as u64, area.pages)?;
        if area.kind == Kind::Vmalloc && payload.contains(page) { self.platform.frame(page) } else { None }
    }
}

impl State {
    /// Takes a busy area of `kind` out of use: its pages, and how many of them are guards.
    #[inline]
    fn retire(&mut self, page: u64, kind: Kind, guards: bool) -> Result<(PageRange, u64), FreeError> {
        let noted = if self.notes.is_empty() { None } else { self.notes.get(&page).copied() };
        if noted.map_or(Kind::Vmalloc, |note| note.kind) != kind
            && self.map.find(page).is_some_and(|area| area.start() == page)
        {
            return Err(FreeError::WrongKind { page });
        }
        let area = self.map.retire(page)?;
        if noted.is_some() {
            self.notes.remove(&page);
        }
        self.busy_areas -= 1;
        self.busy_pages -= area.len();
        Ok((area, noted.map_or(u64::from(guards), |note| note.guard_pages)))
    }

    /// Makes sure that a note can be entered, if this one must be.
    #[inline]
    fn reserve_note(&mut self, note: &Note, guards: bool) -> Result<(), AllocError> {
        if note.is_plain(guards) || self.notes.try_reserve(1).is_ok() {
            return Ok(());
        }
        Err(AllocError::Metadata)
    }

    #[inline]
    fn enter(&mut self, area: PageRange, note: Note, guards: bool) {
        self.busy_areas += 1;
        self.busy_pages += area.len();
        if !note.is_plain(guards) {
            self.notes.insert(area.start(), note);
        }
    }

    fn verify_counts(&self) -> Result<(), Violation> {
        let (mut busy, mut retired) = ((0, 0), (0, 0));
        for segment in self.map.segments() {
            let of = match segment.state {
                SegmentState::Free => continue,
                SegmentState::Busy => &mut busy,
                SegmentState::Retired => &mut retired,
            };
            *of = (of.0 + 1, of.1 + segment.range.len());
        }
        let page = self.map.span().start();
        if busy != (self.busy_areas, self.busy_pages) {
            return Err(Violation { invariant: "S1: busy areas are miscounted", page });
        }
        let waiting = (self.lazy_areas + self.retained.areas(), self.lazy_pages + self.retained.pages());
        if retired != waiting {
            return Err(Violation {
                invariant: "S2: an area is neither busy, lazy, retained nor free",
                page,
            });
        }
        let stray = |&&page: &&u64| self.map.find(page).is_none_or(|area| area.start() != page);
        match self.notes.keys().find(stray) {
            Some(&page) => Err(Violation { invariant: "S3: a note without its area", page }),
            None => Ok(()),
        }
    }
}

impl Note {
    /// Whether an area without a note says the same.
    #[inline]
    fn is_plain(&self, guards: bool) -> bool {
        self.slack == 0
            && self.tag.is_none()
            && self.kind == Kind::Vmalloc
            && self.guard_pages == u64::from(guards)
    }
}
