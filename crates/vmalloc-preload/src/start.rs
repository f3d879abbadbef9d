//! The start of the heap, and the question whether there is one.
//!
//! ```text
//!            constructor: settings read,
//!            the program's malloc comes here    large requests of VMALLOC_START bytes
//!   NOTHING ───────────────────────────────► NEW ──────────────────────────────────► STARTING
//!                                             ▲                                       │ │  │ refused
//!                                             │ in the child of a fork that another   │ │  ▼
//!                                             └────────── thread made meanwhile ──────┘ │  OFF
//!                                                                                 READY ◄
//! ```
//!
//! Where another malloc stands before this library, some functions of the program are that one's
//! and others come here: those that it lacks. They are glibc's then, as without this library.
//!
//! One thread wins the way from NEW to STARTING, and starts the heap on a stack of its own. Without
//! memory for the stack it goes back to NEW. All others, and whatever that thread allocates on the
//! way (readdir(3) does), are served by glibc: nothing waits, and no `pthread_once` allocates. Nor
//! does any thread wait for the dynamic loader: what is looked up there, the constructor looks up.
//! Programs that need little large memory never get as far, and start as fast as without this
//! library.

use crate::base::{SavedErrno, say};
use crate::settings::Settings;
use crate::{altered, fork, glibc, limits, own_stack};
use large_heap::{Bounds, Inside, LargeHeap};
use libc::{c_char, c_int};
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, ptr};
use vmalloc_linux::{GuardMeans, LinuxOptions, page_bytes, trap_report};

const NOTHING: u8 = 0;
const NEW: u8 = 1;
const STARTING: u8 = 2;
const READY: u8 = 3;
const OFF: u8 = 4;

/// The least reservation that is worth having.
const LEAST_RESERVE: usize = 1 << 30;
/// Bytes by which glibc's heap of small blocks grows beyond what it needs, instead of 128 KiB:
/// git makes 370 calls of brk(2) fewer, 2 % of its time. Pages that are not touched cost nothing.
const GLIBC_PAD: c_int = 1 << 20;
/// Freed addresses that trap before the first of them are used again, while debugging.
const DEBUG_LAZY: u64 = 1 << 30;
/// The size from which on glibc maps a block. It learns to take larger ones from its heap, unless
/// it is told how much the heap grows.
const GLIBC_LARGE: usize = 128 << 10;

/// Sizes below are glibc's. All are, until the constructor has run.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
static STATE: AtomicU8 = AtomicU8::new(NOTHING);
/// The thread that opens the heap.
static STARTER: AtomicUsize = AtomicUsize::new(0);
/// Bytes of large requests that glibc has served.
static SERVED_BEFORE: AtomicUsize = AtomicUsize::new(0);
/// The bounds of the reservation: written once, before any pointer into it exists.
static BOUNDS: Bounds = Bounds::empty();
/// The heap, once it is ready, and for ever then.
static HEAP: AtomicPtr<LargeHeap> = AtomicPtr::new(ptr::null_mut());

struct SettingsCell(UnsafeCell<Settings>);

// SAFETY: written by the constructor alone, while the threshold lets no other thread read it.
unsafe impl Sync for SettingsCell {}

static SETTINGS: SettingsCell = SettingsCell(UnsafeCell::new(Settings::DEFAULT));

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destruct;

extern "C" fn construct(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: glibc passes the environment to constructors.
    let settings = unsafe { Settings::read(environment) };
    // SAFETY: constructors run once, and nothing reads before the threshold is set.
    unsafe { SETTINGS.0.get().write(settings) };
    // Now, since later calls are made under locks.
    let _ = page_bytes();
    // Now, since a lookup takes the loader's lock. A thread that has it may wait for one that calls
    // malloc: a constructor inside dlopen(3) may create threads and join them.
    glibc::look_up();
    altered::look_up();
    limits::look_up();
    // Now, since threads that fork must find all handlers or none.
    if fork::install() {
        probe();
        // Release: pairs with the Acquire in `approach`.
        THRESHOLD.store(if is_reached() { settings.threshold } else { usize::MAX }, Ordering::Release);
    } else {
        say(format_args!("the program runs on glibc's malloc alone: pthread_atfork failed"));
    }
}

/// Asks the program's malloc for a block. Any size is large for a moment, and gets to `approach` if
/// the request comes here, at once or through a library that counts it.
fn probe() {
    // Release: pairs with the Acquire in `approach`.
    THRESHOLD.store(0, Ordering::Release);
    glibc::allocate_as_the_program();
}

/// Returns true if what the program allocates comes here.
pub(crate) fn is_reached() -> bool {
    STATE.load(Ordering::Relaxed) != NOTHING
}

extern "C" fn destruct() {
    settings().stats.print();
}

/// Returns the settings, which are the defaults until the constructor has run.
pub(crate) fn settings() -> &'static Settings {
    // SAFETY: written before any thread that may get here was let past the threshold, and by the
    // thread that runs constructors and destructors.
    unsafe { &*SETTINGS.0.get() }
}

/// Returns true if a request of as many bytes is glibc's.
#[inline(always)]
pub(crate) fn is_small(bytes: usize) -> bool {
    bytes < THRESHOLD.load(Ordering::Relaxed)
}

/// Returns true if `addr` lies in the reservation.
#[inline(always)]
pub(crate) fn is_ours(addr: usize) -> bool {
    BOUNDS.contains(addr)
}

/// Returns the heap, if one was opened.
#[inline]
pub(crate) fn heap() -> Option<&'static LargeHeap> {
    // SAFETY: the heap lives for ever. Acquire: pairs with the Release in `start`.
    unsafe { HEAP.load(Ordering::Acquire).as_ref() }
}

/// The heap, which no fork disturbs until this is dropped.
pub(crate) struct Entered {
    heap: &'static LargeHeap,
    _inside: Inside<'static>,
}

impl Deref for Entered {
    type Target = LargeHeap;

    #[inline(always)]
    fn deref(&self) -> &LargeHeap {
        self.heap
    }
}

/// Returns the heap, if one was opened and no thread forks.
#[inline]
pub(crate) fn enter() -> Option<Entered> {
    Some(Entered { heap: heap()?, _inside: fork::enter()? })
}

/// Returns the heap, if it may serve a request of `bytes` bytes.
#[inline]
pub(crate) fn enter_for(bytes: usize) -> Option<Entered> {
    if heap().is_none() {
        approach(bytes);
    }
    enter()
}

/// Opens the heap, if enough was asked for.
#[cold]
fn approach(bytes: usize) {
    // Acquire: pairs with the Release in `construct`: the settings.
    if THRESHOLD.load(Ordering::Acquire) == usize::MAX || STATE.load(Ordering::Relaxed) > NEW {
        return;
    }
    if STATE.compare_exchange(NOTHING, NEW, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        return;
    }
    let before = SERVED_BEFORE.fetch_add(bytes.min(usize::MAX >> 1), Ordering::Relaxed);
    if before.saturating_add(bytes) < settings().start {
        return;
    }
    // A fork waits for the start, or the start for another request.
    let Some(_inside) = fork::enter() else { return };
    if STATE.compare_exchange(NEW, STARTING, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        STARTER.store(fork::this_thread(), Ordering::Relaxed);
        let _errno = SavedErrno::new();
        if !own_stack::run(start) {
            // The next large request tries again.
            STATE.store(NEW, Ordering::Relaxed);
        }
    }
}

extern "C" fn start() {
    match open() {
        Ok(heap) => {
            let (base, bytes) = heap.reservation();
            BOUNDS.set(base, bytes);
            HEAP.store(Box::into_raw(Box::new(heap)), Ordering::Release);
            STATE.store(READY, Ordering::Relaxed);
            // With a higher threshold some large blocks are glibc's, and a program that tunes glibc
            // knows better.
            if settings().threshold <= GLIBC_LARGE && !settings().tunes_glibc {
                glibc::pad_heap(GLIBC_PAD);
            }
        }
        Err(error) => {
            STATE.store(OFF, Ordering::Relaxed);
            THRESHOLD.store(usize::MAX, Ordering::Relaxed);
            say(format_args!("the program runs on glibc's malloc alone: {error}"));
        }
    }
}

fn open() -> Result<LargeHeap, Box<dyn std::error::Error>> {
    let settings = settings();
    if let Some(reason) = limits::speaks_for_glibc() {
        return Err(reason.into());
    }
    let most = settings.reserve.min(limits::most_addresses()) / page_bytes() * page_bytes();
    if most < LEAST_RESERVE.min(settings.reserve) {
        return Err("the limit on addresses (ulimit -v) leaves too few".into());
    }
    let options = LinuxOptions::new().max_bytes(most).frame_bytes(0).name(c"vmalloc");
    let decay = Duration::from_millis(settings.decay_ms as u64);
    let options = options.drain_thread(settings.thread).decay_every(decay).populate(settings.populate);
    let space = LargeHeap::space_options(settings.budget).guard(settings.guards).trap_on_free(settings.trap);
    let space = if settings.debug { space.lazy_max_pages(DEBUG_LAZY / page_bytes() as u64) } else { space };
    let every_ms = if settings.thread { 0 } else { settings.decay_ms as u64 };
    let open = |means| LargeHeap::open(options.guard_means(means), space, every_ms);
    // Not by userfaultfd(2): a program may close descriptors that are not its own.
    let heap = open(GuardMeans::PteMarkers).or_else(|_| open(GuardMeans::Mprotect))?;
    if heap.reservation().1 < LEAST_RESERVE.min(most) {
        return Err("the system leaves too few addresses".into());
    }
    if settings.trap {
        report_traps(&heap);
    }
    Ok(if settings.debug { heap.exact() } else { heap })
}

/// Has traps of the heap reported on stderr, until the program takes the signals for itself.
fn report_traps(heap: &LargeHeap) {
    match trap_report::install() {
        Ok(()) => mem::forget(trap_report::watch(heap.space())),
        Err(error) => say(format_args!("traps are not reported: {error}")),
    }
}

/// Gives back what is cached, and the reservation but for `least` bytes and what is in use.
pub(crate) fn shrink(least: usize) {
    if let Some(heap) = enter().filter(|heap| least < heap.reservation().1) {
        heap.shrink(least, |bytes| BOUNDS.shrink(bytes));
    }
}

/// Leaves everything new to glibc, if there is a heap, and gives back what is not in use. Returns
/// false if there is none, or it was left before.
pub(crate) fn retire() -> bool {
    let was_served = heap().is_some() && THRESHOLD.swap(usize::MAX, Ordering::Relaxed) != usize::MAX;
    if was_served {
        shrink(0);
    }
    was_served
}

/// Ends a start that another thread was in the middle of, in the child of a fork: the next large
/// request begins again.
pub(crate) fn mend_in_child() {
    // Relaxed: a child has one thread.
    let is_another = STARTER.load(Ordering::Relaxed) != fork::this_thread();
    if STATE.load(Ordering::Relaxed) == STARTING && is_another {
        STATE.store(NEW, Ordering::Relaxed);
    }
}
