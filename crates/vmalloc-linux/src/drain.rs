//! The drain thread: gives back in the background what frees leave behind, one thread a space.
//!
//! ```text
//!            first request: thread created                 request: futex wake
//!   NONE ───────────────────────────────────► QUIET ──────────────────────────────► DUE
//!    ▲                                         │ ▲     taken, before the drain       │
//!    │ in a forked child: from anywhere        │ └───────────────────────────────────┘
//!    └───────────────                          └──────────── space dropped: from anywhere ──► STOP
//! ```
//!
//! The thread sleeps on that word: without end while nothing is left to drain, else for a [`TICK`], so that what is
//! kept goes by its age. It drains at its start, at each request, and at each tick. A request by age (AGED, on the same
//! way as DUE) only lets it tick, and a thread that was created for one begins with a tick.
//!
//! No request is lost: a free puts its area into the space before it asks, and the thread takes the request before
//! it drains. A free that still finds DUE therefore asks for a drain that has not looked yet.
//!
//! # Who owns what
//! [`Shared`] is held by the space's platform and by the thread, one count each; it knows the space weakly, and the
//! thread holds the space only for as long as a drain. Invariants:
//! - **D1** While the space is there and nobody holds [`Shared::crew`], that names a thread if and only if the thread
//!   is there to be joined, and one count of `Shared` is its own.
//! - **D2** The thread holds the space only while it holds `crew`.
//!
//! # Why dropping is safe
//! The last owner of the space lets go of it
//! - in another thread: by D2 the drain thread is in no drain, and can begin none, for the space can't be had any
//!   more. It is told to stop, and joined; nothing it still does needs a lock.
//! - in the drain thread, at the end of a drain during which all others let go. It must not join itself: it detaches
//!   itself, and ends when it finds STOP. What it still touches is `Shared`, which it owns a count of.
//!
//! # Why forking is safe
//! The hook takes `crew` before the locks of the space, for it is registered after the space's. So
//! at the fork (D1, D2) the thread either is there or not, no other thread is creating it, and it
//! does not hold the space, whose count would never fall to zero in the child. The child has no
//! such thread: it forgets it, gives back the count of `Shared` that was the thread's, and the next
//! request there creates one. A request that was pending is forgotten too. The space repeats it: it
//! lets each node tell of its next free again, and remembers by itself what was freed where nobody
//! could ask for a drain.
//!
//! # From signal handlers
//! [`DrainThread::wake`] is all that [`vfree_atomic`](vmalloc::Space::vfree_atomic) leads to. It
//! wakes a thread that is there. To create one takes locks of the C library, which the interrupted
//! thread may hold; so that is left to ordinary requests, of which the space makes one as soon as
//! it may.
//!
//! Lock order: the registry of `fork`, `crew`, the locks of the space, the platform's. Requests take `crew` only if
//! it is free.

mod sync;

use self::sync::AtomicU32;
use self::sync::futex::{self, Timespec};
use crate::fork::hooks::AtFork;
use crate::os::futex::FutexLock;
use lock_api::Mutex;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use vmalloc::{DrainReason, DrainStatus};

/// No thread. The orders of all accesses are relaxed: what is to be drained is published by the locks of the space.
const NONE: u32 = 0;
/// The thread sleeps, or is at work and nothing was asked for since it began.
const QUIET: u32 = 1;
/// A drain was asked for.
const DUE: u32 = 2;
/// The space is gone.
const STOP: u32 = 3;
/// Something is kept again that will have to go by its age.
const AGED: u32 = 4;

/// How long cached areas lie between two drains by age, of which each takes a quarter: half of what is not
/// used goes in 2.4 s, 64 MiB in areas of one page in 40 s. A wake-up a second is no load to speak of, and none comes
/// once nothing is left.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The thread's name, for those who look at the program from outside.
const NAME: &std::ffi::CStr = c"vmalloc-drain";

/// The thread's stack: a purge has one or two batches of 16 KiB on it, and the program's heap and the thread-local
/// variables of all its libraries need some room as well. Only what is touched costs memory.
const STACK_BYTES: usize = 256 << 10;

/// After the n-th refusal in a row to create the thread, 2ⁿ requests pass before the next attempt, at most this many.
/// Each purges by itself, which takes longer than the attempt would.
const MOST_PASSED_OVER: u32 = 1 << 10;

thread_local! {
    /// In a drain thread, what it shares with its space.
    static DRAINS: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Whether the calling thread drains a space.
///
/// For a global allocator that stands on a space of [`open`](crate::open): the lists of a drain are taken from the
/// heap while the space is locked, so on this thread, as within its own calls of the space, it must take them from
/// somewhere else.
pub fn on_drain_thread() -> bool {
    !DRAINS.get().is_null()
}

/// A space, as far as its drain thread knows it. The space stands above this file and implements it.
pub(crate) trait Drain: Send + Sync {
    /// Gives back in one round what frees have left behind. [`DrainStatus::More`] asks for another
    /// round after a tick.
    fn drain(&self) -> DrainStatus;
}

/// A space's hold on its drain thread, which may not be there yet, or never. Dropped with the space, it ends the
/// thread.
#[derive(Debug, Default)]
pub(crate) struct DrainThread(OnceLock<Arc<Shared>>);

impl DrainThread {
    /// Allows a thread for `space`, whose platform this belongs to. It is created at the first request.
    pub(crate) fn allow(&self, space: Weak<dyn Drain>) {
        let crew = Mutex::new(Crew { thread: None, refusals: 0, passing_over: 0 });
        // A second call changes nothing.
        let _ = self.0.set(Arc::new(Shared { word: AtomicU32::new(NONE), crew, space }));
    }

    /// Asks for a drain; whether it will come. Neither waits nor allocates, but for what creating a thread takes.
    pub(crate) fn request(&self, due: DrainReason) -> bool {
        let Some(shared) = self.0.get() else { return false };
        if shared.word.load(Ordering::Relaxed) == NONE { shared.start(due) } else { shared.wake_for(due) }
    }

    /// Asks for a drain at once if the thread is there; whether it will come. One atomic operation
    /// and at most one call of the system, which can't fail and so leaves `errno` alone: a signal
    /// handler may do that.
    pub(crate) fn wake(&self) -> bool {
        self.0.get().is_some_and(|shared| shared.wake_for(DrainReason::Threshold))
    }

    /// What has to know of forks, if a thread is allowed.
    pub(crate) fn watch(&self) -> Option<Weak<Shared>> {
        self.0.get().map(Arc::downgrade)
    }
}

impl Drop for DrainThread {
    fn drop(&mut self) {
        let Some(shared) = self.0.get() else { return };
        if ptr::eq(DRAINS.get(), Arc::as_ptr(shared)) {
            // SAFETY: this thread is joinable: nobody has joined it, for its handle is taken only here, once.
            unsafe { libc::pthread_detach(libc::pthread_self()) };
            return shared.word.store(STOP, Ordering::Relaxed);
        }
        let Some(thread) = shared.crew.lock().thread.take() else { return };
        shared.word.store(STOP, Ordering::Relaxed);
        shared.wake();
        // SAFETY: D1, and the handle was taken out, so this is the only join. The answer can only be success.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    }
}

impl AtFork for Arc<Shared> {
    /// Waits for a drain, or for the thread's creation, and holds off the next.
    fn quiesce(&self) {
        std::mem::forget(self.crew.lock());
    }

    unsafe fn resume(&self) {
        // SAFETY: `force_unlock` asks that this thread holds the lock: the caller promises that it has
        // called `quiesce`, which forgot the guard.
        unsafe { self.crew.force_unlock() };
    }

    unsafe fn resume_in_child(&self) {
        self.word.store(NONE, Ordering::Relaxed);
        // SAFETY: locked by `quiesce`, whose guard is forgotten: no other reference to it is live.
        if unsafe { &mut *self.crew.data_ptr() }.thread.take().is_some() {
            // SAFETY: the pointer is that of a live `Arc`. By D1 one count belonged to the thread,
            // which is not there to use or to give it back; ours remains.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
        // SAFETY: as in `resume`: the caller promises that its parent has called `quiesce`.
        unsafe { self.crew.force_unlock() };
    }
}

/// What the space and its thread have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// [`NONE`], [`QUIET`], [`AGED`], [`DUE`] or [`STOP`].
    word: AtomicU32,
    /// Held over a drain, over the thread's creation, and over a fork.
    crew: Mutex<FutexLock, Crew>,
    space: Weak<dyn Drain>,
}

#[derive(Debug)]
struct Crew {
    thread: Option<libc::pthread_t>,
    /// Attempts to create the thread that failed, in a row.
    refusals: u32,
    /// Requests to go before the next attempt.
    passing_over: u32,
}

impl Shared {
    /// Creates the thread, if it is not being created: on another thread, or by a caller of this one. (Creating a
    /// thread takes a little from the C library's heap; should that stand on this space, it may free, and get here.)
    #[cold]
    fn start(self: &Arc<Self>, due: DrainReason) -> bool {
        // Also held in a fork, which would not know of the new thread.
        let Some(mut crew) = self.crew.try_lock() else { return false };
        if crew.thread.is_some() {
            // Created since the word was read; its first drain comes without a request, once it gets the lock.
            return true;
        }
        if crew.passing_over > 0 {
            crew.passing_over -= 1;
            return false;
        }
        let Ok(thread) = spawn(Arc::clone(self)) else {
            crew.refused();
            return false;
        };
        *crew = Crew { thread: Some(thread), refusals: 0, passing_over: 0 };
        let word = if due == DrainReason::Threshold { QUIET } else { AGED };
        self.word.store(word, Ordering::Relaxed);
        true
    }

    /// Asks the thread for a drain, if it is there; whether it will come.
    fn wake_for(&self, due: DrainReason) -> bool {
        match (self.word.load(Ordering::Relaxed), due) {
            (NONE | STOP, _) => false,
            (word @ (QUIET | AGED), DrainReason::Threshold) => self.ask(word, DUE),
            (QUIET, DrainReason::Age) => self.ask(QUIET, AGED),
            _ => true,
        }
    }

    fn ask(&self, found: u32, wanted: u32) -> bool {
        match self.word.compare_exchange(found, wanted, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.wake(),
            // Somebody let it tick meanwhile, which is less than was asked for here.
            Err(AGED) if wanted == DUE => return self.ask(AGED, DUE),
            // Somebody was faster: the space is in use, so the word is not STOP.
            Err(_) => {}
        }
        true
    }

    fn wake(&self) {
        // Cannot fail for a valid word.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
    }

    /// The life of the thread.
    fn run(&self) {
        DRAINS.set(self);
        // Only for the eye.
        let _ = rustix::thread::set_name(NAME);
        // Once it is free, the word says what this was created for.
        drop(self.crew.lock());
        let mut goes_on = self.word.load(Ordering::Relaxed) != AGED || self.wait(DrainStatus::Done);
        while goes_on {
            let rest = self.drain();
            goes_on = self.wait(rest);
        }
    }

    /// One round. When it returns, the space may be gone, by this very call.
    fn drain(&self) -> DrainStatus {
        let _at_work = self.crew.lock();
        // D2: dropped before the lock.
        let Some(space) = self.space.upgrade() else { return DrainStatus::Done };
        space.drain()
    }

    /// Sleeps until a drain is due, by request or by age; `false` when the thread is to end.
    fn wait(&self, rest: DrainStatus) -> bool {
        let mut timeout = (rest == DrainStatus::More).then_some(&TICK);
        loop {
            match self.word.load(Ordering::Relaxed) {
                STOP => return false,
                // Only this thread, the space's end and a fork in the child take a request back, so an exchange that fails has
                // found STOP, or DUE after AGED: the next look tells.
                word @ (DUE | AGED) => {
                    let taken = self.word.compare_exchange(word, QUIET, Ordering::Relaxed, Ordering::Relaxed);
                    if word == DUE && taken.is_ok() {
                        return true;
                    }
                    timeout = Some(&TICK);
                    continue;
                }
                _ => {}
            }
            if futex::wait(&self.word, futex::Flags::PRIVATE, QUIET, timeout) == Err(Errno::TIMEDOUT) {
                return true;
            }
        }
    }
}

impl Crew {
    fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
        self.passing_over =
            1_u32.checked_shl(self.refusals).map_or(MOST_PASSED_OVER, |n| n.min(MOST_PASSED_OVER));
    }
}

/// Creates the drain thread.
///
/// By the C library, not by `std::thread`: that takes the thread's name, result and closure from the program's heap,
/// which may stand on this space. The C library maps the stack, and takes a few hundred bytes for its table of
/// thread-local blocks from its own heap.
fn spawn(shared: Arc<Shared>) -> Result<libc::pthread_t, Errno> {
    let argument = Arc::into_raw(shared);
    // A handler of the program's must not run here: it would find neither the stack nor the thread it expects.
    let created = with_signals_blocked(|| create(argument));
    if created.is_err() {
        // SAFETY: from `into_raw` above, and no thread has taken it over.
        drop(unsafe { Arc::from_raw(argument) });
    }
    created
}

fn create(argument: *const Shared) -> Result<libc::pthread_t, Errno> {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: room for what is written. The attributes are initialized before they are used, and destroyed once. The
    // new thread runs `main` with what it expects.
    unsafe {
        answer(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        let created =
            answer(libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES)).and_then(|()| {
                answer(libc::pthread_create(
                    thread.as_mut_ptr(),
                    attributes.as_ptr(),
                    main,
                    argument.cast_mut().cast::<c_void>(),
                ))
            });
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        // SAFETY: written, if the thread was created.
        created.map(|()| thread.assume_init())
    }
}

fn answer(code: libc::c_int) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code)) }
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` made it by `into_raw`, for this thread alone.
    unsafe { Arc::from_raw(argument.cast_const().cast::<Shared>()) }.run();
    ptr::null_mut()
}

/// What `body` creates inherits a mask of all signals. (But the two that the C library keeps for itself.)
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: room for a set each; the first is filled before it is read. The call can't fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = body();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_pass_over_more_and_more_requests() {
        let mut crew = Crew { thread: None, refusals: 0, passing_over: 0 };
        let passed_over: Vec<_> = (0..40)
            .map(|_| {
                crew.refused();
                crew.passing_over
            })
            .collect();
        assert_eq!(passed_over[..3], [2, 4, 8]);
        assert_eq!(passed_over[9..].iter().max(), Some(&MOST_PASSED_OVER));
        assert_eq!(passed_over[9..].iter().min(), Some(&MOST_PASSED_OVER));
    }
}

#[cfg(all(test, loom))]
mod models;
