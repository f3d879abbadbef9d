//! The one state of this library, its lock, and the steps that change what is mapped.
//!
//! ```text
//!              constructor: settings read       first mapping that may be served
//!   (nothing) ────────────────────────► NEW ─────────────────────────────────────► ON
//!                                        │ the reservation is refused               │ mlockall(2)
//!                                        └──────────────────────────────► OFF ◄─────┘
//! ```
//!
//! While a thread forks the claims are frozen, and all calls go on: no thread waits for another one
//! that waits for a lock of the C library or of the program. New mappings are the kernel's then.
//!
//! OFF means that no further mapping is served. Calls on those that were go on as before.
//!
//! An area is *untouched* from the call that mapped it until one is made on it whose effect lasts:
//! another access, advice, a lock, a mapping over a part of it. Its content does not count.

use crate::changes::Changes;
use crate::claims::{Claimed, Claims, Run};
use crate::fork;
use crate::kept::Kept;
use crate::kernel::{self, Answer, Blocked};
use crate::pages::{bytes_of, page_bytes, pages_of};
use crate::settings::{self, Settings};
use libc::c_int;
use lock_api::{MappedMutexGuard, Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use vmalloc::PageRange;
use vmalloc_linux::FutexLock;
use vmalloc_preload_base::say;

const NEW: u8 = 1;
const ON: u8 = 2;
const OFF: u8 = 3;

/// The least reservation that is worth having.
const LEAST_RESERVE: usize = 1 << 30;
/// A mapping may be as large a part of the reservation.
const PART: usize = 8;
/// Areas that are known to be untouched, at most. Others are unmapped as the kernel would. It is a
/// number, and no page size.
const MOST_UNTOUCHED: usize = 4096;

/// 0 until the constructor has run.
static PHASE: AtomicU8 = AtomicU8::new(0);
/// The reservation: written once, before any pointer into it exists.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static SETTINGS: OnceLock<Settings> = OnceLock::new();
static STATE: Mutex<FutexLock, Option<State>> = Mutex::new(None);
/// How many threads fork. Under the lock of [`STATE`].
static FORKS: AtomicUsize = AtomicUsize::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destruct;

extern "C" fn construct() {
    let _ = SETTINGS.set(Settings::read());
    match fork::install() {
        // Release: pairs with the Acquire in `is_served`: the settings.
        Ok(()) => PHASE.store(NEW, Ordering::Release),
        Err(_) => off(&"pthread_atfork failed"),
    }
}

extern "C" fn destruct() {
    if settings().stats
        && let Some(state) = enter()
    {
        let Counts { served, reused, kept, cut } = state.counts;
        say(format_args!("mmap: {served} served, {reused} of kept areas; {kept} kept; {cut} unmaps"));
    }
}

fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or(&Settings::DEFAULT)
}

fn off(why: &dyn std::fmt::Display) {
    PHASE.store(OFF, Ordering::Relaxed);
    say(format_args!("all mappings are the kernel's: {why}"));
}

/// Ends the serving of mappings, because later ones would differ from the kernel's.
pub(crate) fn stop() {
    PHASE.store(OFF, Ordering::Relaxed);
    if let Some(mut state) = enter() {
        state.evict_all();
    }
}

/// Returns true if a mapping of `len` bytes may be served.
pub(crate) fn is_served(len: usize) -> bool {
    // Acquire: pairs with the Release in `construct`.
    let phase = PHASE.load(Ordering::Acquire);
    (phase == NEW || phase == ON) && len >= settings().least && len <= settings().reserve / PART
}

/// Returns the reservation, as pages.
pub(crate) fn reservation() -> Option<PageRange> {
    // Acquire: pairs with the Release in `open`: the bytes.
    let base = BASE.load(Ordering::Acquire);
    if base == 0 { None } else { pages_of(base, BYTES.load(Ordering::Relaxed)) }
}

/// Returns the part of `range` that lies in the reservation.
pub(crate) fn inside(range: PageRange) -> Option<PageRange> {
    reservation()?.intersection(&range)
}

/// The state, under its lock, with all signals blocked.
pub(crate) struct Held {
    // Released first: fields go in this order.
    state: MappedMutexGuard<'static, FutexLock, State>,
    _signals: Blocked,
}

impl Deref for Held {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// Locks the state, if the reservation was made.
pub(crate) fn enter() -> Option<Held> {
    let signals = Blocked::new();
    let state = MutexGuard::try_map(STATE.lock(), Option::as_mut).ok()?;
    Some(Held { state, _signals: signals })
}

/// Locks the state, after the reservation was made if it was not.
pub(crate) fn enter_open() -> Option<Held> {
    let signals = Blocked::new();
    let mut guard = STATE.lock();
    if guard.is_none() {
        // Another thread may have been refused meanwhile.
        if PHASE.load(Ordering::Relaxed) != NEW || FORKS.load(Ordering::Relaxed) != 0 {
            return None;
        }
        match open() {
            Ok(state) => *guard = Some(state),
            Err(why) => {
                off(&why);
                return None;
            }
        }
    }
    let state = MutexGuard::try_map(guard, Option::as_mut).ok()?;
    Some(Held { state, _signals: signals })
}

fn open() -> Result<State, &'static str> {
    let settings = settings();
    let bytes = settings.reserve.min(settings::reserve_limit()) / page_bytes() * page_bytes();
    if bytes < LEAST_RESERVE.min(settings.reserve) {
        return Err("the limit on addresses (ulimit -v) leaves too few");
    }
    let base = kernel::reserve(bytes).map_err(|_| "the system refuses the reservation")?;
    let claims = pages_of(base, bytes).and_then(|span| Claims::new(span).ok());
    let Some(claims) = claims else {
        // SAFETY: the mapping just made.
        let _ = unsafe { kernel::munmap(base, bytes) };
        return Err("there is no memory for records");
    };
    BYTES.store(bytes, Ordering::Relaxed);
    // Release: pairs with the Acquire in `reservation`.
    BASE.store(base, Ordering::Release);
    PHASE.store(ON, Ordering::Relaxed);
    let kept = Kept::new(settings.keep, settings.clear);
    Ok(State { claims, kept, untouched: Vec::new(), counts: Counts::default() })
}

/// Freezes the claims, before a fork. Returns the mask of signals of before; all are blocked.
pub(crate) fn freeze() -> u64 {
    let signals = Blocked::new();
    let mut state = STATE.lock();
    FORKS.fetch_add(1, Ordering::Relaxed);
    if let Some(state) = state.as_mut() {
        state.claims.freeze();
    }
    drop(state);
    signals.leak()
}

/// Thaws the claims after a fork, in the parent, if no other thread forks. Sets the mask of
/// signals.
pub(crate) fn thaw(mask: u64) {
    let _signals = Blocked::of(mask);
    let mut state = STATE.lock();
    let is_last = FORKS.fetch_sub(1, Ordering::Relaxed) == 1;
    if let Some(state) = state.as_mut().filter(|_| is_last) {
        state.thaw();
    }
}

/// Thaws the claims in the child of a fork. Sets the mask of signals.
///
/// # Safety
/// This thread is the only one, and is in no call of this library.
pub(crate) unsafe fn thaw_in_child(mask: u64) {
    if STATE.is_locked() {
        // SAFETY: the thread that held it, which the child does not have, was in the middle of a
        // change of frozen claims: of those each moment is a whole one.
        unsafe { STATE.force_unlock() };
    }
    FORKS.store(1, Ordering::Relaxed);
    thaw(mask);
}

/// How often something happened.
#[derive(Default)]
struct Counts {
    served: u64,
    reused: u64,
    kept: u64,
    cut: u64,
}

/// All that this library knows. See the module's documentation.
pub(crate) struct State {
    claims: Claims,
    kept: Kept,
    /// The first pages of untouched areas, in order.
    untouched: Vec<u64>,
    counts: Counts,
}

impl State {
    /// Returns the runs of `range`, a part of the reservation.
    pub(crate) fn runs(&self, range: PageRange) -> impl Iterator<Item = Run> + '_ {
        self.claims.runs(range)
    }

    /// Returns true if a page of `range` is not the program's.
    pub(crate) fn has_gap(&self, range: PageRange) -> bool {
        self.claims.first_gap(range).is_some()
    }

    /// Returns true if a page of `range` is the program's.
    pub(crate) fn has_live(&self, range: PageRange) -> bool {
        self.claims.first_live(range).is_some()
    }

    /// Maps `pages` fresh pages with `access` and `flags`. Returns their address; `None` where that
    /// is the kernel's to answer.
    pub(crate) fn map(&mut self, pages: u64, access: c_int, flags: c_int) -> Option<usize> {
        let range = self.claims.alloc(pages)?;
        let (addr, len) = bytes_of(range);
        let fixed = flags | libc::MAP_FIXED;
        let map = kernel::Map { addr, len, access, flags: fixed, file: -1, offset: 0 };
        // SAFETY: the pages were just claimed (I1).
        if unsafe { kernel::mmap(&map) }.is_err() {
            if kernel::is_reserved((addr, len)) {
                self.claims.free(range);
            }
            return None;
        }
        self.counts.served += 1;
        if flags == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS && self.kept.takes(pages) {
            self.set_untouched(range.start());
        }
        Some(addr)
    }

    /// Reuses a kept area of `pages` pages.
    pub(crate) fn reuse(&mut self, pages: u64) -> Option<usize> {
        let range = if self.claims.is_frozen() { None } else { self.kept.take(pages) }?;
        self.claims.revive(range.start())?;
        self.set_untouched(range.start());
        self.counts.served += 1;
        self.counts.reused += 1;
        Some(bytes_of(range).0)
    }

    /// Unmaps what the program has in `range`.
    pub(crate) fn unmap(&mut self, range: PageRange) -> Answer {
        let mut rest = Some(range);
        while let Some(part) = rest.and_then(|rest| self.claims.first_live(rest)) {
            self.unmap_part(part)?;
            rest = PageRange::new(part.end(), range.end());
        }
        Ok(0)
    }

    /// Unmaps pages of one area.
    fn unmap_part(&mut self, part: PageRange) -> Answer {
        if let Some(changes) = self.claims.changes() {
            changes.touch();
        } else if let Some(area) = self.claims.area(part.start())
            && self.set_touched(area.start())
            && area == part
            && self.keep(area)
        {
            return Ok(0);
        }
        let (addr, len) = bytes_of(part);
        // SAFETY: the program unmaps these pages.
        unsafe { kernel::reserve_over(addr, len) }?;
        self.counts.cut += 1;
        self.claims.free(part);
        Ok(0)
    }

    /// Keeps an area that was untouched. Returns false if it can't.
    fn keep(&mut self, area: PageRange) -> bool {
        while let Some(oldest) = self.kept.in_the_way(area.len()) {
            if self.evict(oldest).is_err() {
                return false;
            }
        }
        // SAFETY: the program unmaps it, and it is mapped as at the first day (I4).
        let is_zero = unsafe { self.kept.zero(area) }.is_ok();
        if is_zero && self.claims.retire(area.start()) {
            self.kept.push(area);
            self.counts.kept += 1;
            return true;
        }
        false
    }

    /// Gives a kept area back. On an error it stays.
    fn evict(&mut self, area: PageRange) -> Answer {
        if self.claims.changes().is_some_and(Changes::is_full) {
            return Err(libc::ENOMEM);
        }
        let (addr, len) = bytes_of(area);
        // SAFETY: a kept area has no owner (I3).
        unsafe { kernel::reserve_over(addr, len) }?;
        if self.claims.is_frozen() {
            self.claims.free(area);
            return Ok(0);
        }
        self.kept.forget(area);
        if self.claims.revive(area.start()).is_some() {
            self.claims.free(area);
        }
        Ok(0)
    }

    /// Gives all kept areas back, or later, if the claims are frozen.
    fn evict_all(&mut self) {
        while let Some(area) = self.kept.any().filter(|_| !self.claims.is_frozen()) {
            if self.evict(area).is_err() {
                return;
            }
        }
    }

    /// Returns a kept area with pages in `range`.
    fn kept_in(&self, range: PageRange) -> Option<PageRange> {
        // A change that takes a page of a kept area takes all of them.
        let is_evicted = |area: PageRange| self.claims.changes().is_some_and(|it| it.first(area).1.is_some());
        self.kept.all_in(range).find(|&area| !is_evicted(area))
    }

    /// Makes the changes of frozen claims.
    fn thaw(&mut self) {
        if self.claims.changes().is_some_and(Changes::take_touched) {
            self.untouched.clear();
        }
        self.claims.thaw(&mut self.kept);
        if PHASE.load(Ordering::Relaxed) == OFF {
            self.evict_all();
        }
    }

    /// Frees pages of the program's that a call of the kernel has unmapped, if nothing else is
    /// there meanwhile. If something is, they stay the kernel's business.
    pub(crate) fn unmapped(&mut self, range: PageRange) {
        let mut rest = Some(range);
        while let Some(part) = rest.and_then(|rest| self.claims.first_live(rest)) {
            let (addr, len) = bytes_of(part);
            if kernel::reserve_hole(addr, len).is_ok() {
                self.claims.free(part);
            }
            rest = PageRange::new(part.end(), range.end());
        }
    }

    /// Claims the gaps of `range`, which the program is about to map over.
    pub(crate) fn claim_gaps(&mut self, range: PageRange) -> Result<Claimed, c_int> {
        while let Some(area) = self.kept_in(range) {
            self.evict(area)?;
        }
        self.claims.claim_gaps(range).ok_or(libc::ENOMEM)
    }

    /// Frees claimed gaps, after the call on them has failed.
    pub(crate) fn unclaim(&mut self, gaps: &Claimed) {
        self.claims.unclaim(gaps, |gap| kernel::is_reserved(bytes_of(gap)));
    }

    /// Remembers that the areas with pages in `range` are no longer untouched.
    pub(crate) fn touch(&mut self, range: PageRange) {
        if self.untouched.is_empty() {
            return;
        }
        if let Some(changes) = self.claims.changes() {
            return changes.touch();
        }
        let mut rest = Some(range);
        while let Some(part) = rest.and_then(|rest| self.claims.first_live(rest)) {
            if let Some(area) = self.claims.area(part.start()) {
                self.set_touched(area.start());
            }
            rest = PageRange::new(part.end(), range.end());
        }
    }

    fn set_untouched(&mut self, start: u64) {
        if self.untouched.len() < MOST_UNTOUCHED && self.untouched.try_reserve(1).is_ok() {
            let at = self.untouched.partition_point(|&it| it < start);
            self.untouched.insert(at, start);
        }
    }

    /// Returns true if the area that starts at page `start` was untouched until now.
    fn set_touched(&mut self, start: u64) -> bool {
        let found = self.untouched.binary_search(&start);
        found.map(|at| self.untouched.remove(at)).is_ok()
    }
}
