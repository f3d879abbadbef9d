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
//! The thread sleeps on that word. Without end while nothing is left to drain, else for a [`TICK`],
//! so that cached memory goes by its age. It drains at its start, at each request, and at each
//! tick. A request by age (AGED, on the same way as DUE) only lets it tick. A thread that was
//! created for such a request begins with a tick.
//!
//! No request is lost: a free puts its area into the space before it asks, and the thread takes the
//! request before it drains. A free that still finds DUE therefore asks for a drain that has not
//! looked yet.
//!
//! # Ownership
//! [`Shared`] is held by the space's platform and by the thread, one count each. It knows the space
//! weakly, and the thread holds the space only for as long as a drain. Invariants:
//! - **D1** While the space is there and no thread holds [`Shared::worker`], that names a thread if
//!   and only if the thread is there to be joined, and one count of `Shared` is its own.
//! - **D2** The thread holds the space only while it holds `worker`.
//!
//! # Why dropping is safe
//! The last owner of the space drops it
//! - in another thread: by D2 the drain thread is in no drain, and can begin none, for the weak
//!   reference is dead. It is told to stop, and joined. Nothing it still does needs a lock.
//! - in the drain thread, at the end of a drain during which all others dropped it. The thread must
//!   not join itself: it detaches itself, and ends when it finds STOP. From then on it touches only
//!   `Shared`, of which it owns a count.
//!
//! # Why forking is safe
//! The hook takes `worker` before the locks of the space, for it is registered after the space's.
//! So at the fork (D1, D2) the thread either is there or not, no other thread is creating it, and
//! it does not hold the space, whose count would never fall to zero in the child. The child has no
//! such thread: it forgets it, gives back the thread's count of `Shared`, and the next request
//! there creates one. A request that was pending is forgotten too, and the space repeats it. It
//! lets each node tell of its next free again, and it remembers the areas that were freed where no
//! drain could be asked for.
//!
//! # From signal handlers
//! [`free_atomic`](vmalloc::Raw::free_atomic) leads to [`DrainThread::wake`] and to nothing
//! else. It wakes a thread that is there. To create one takes locks of the C library, which the
//! interrupted thread may hold. So that is left to ordinary requests, of which the space makes one
//! as soon as it may.
//!
//! Lock order: the registry of `fork`, `worker`, the locks of the space, the platform's. Requests
//! take `worker` only if it is free.

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

/// The word while no thread exists. All accesses are relaxed: the locks of the space publish the
/// areas to drain.
const NONE: u32 = 0;
/// The thread sleeps, or is at work and nothing was asked for since it began.
const QUIET: u32 = 1;
/// A drain was asked for.
const DUE: u32 = 2;
/// The space is gone.
const STOP: u32 = 3;
/// Something is kept again that will have to go by its age.
const AGED: u32 = 4;

/// The time between two drains by age, of which each takes a quarter of the cached areas, but none
/// that was needed since the one before. Half of the unused memory goes in about 3 s, 64 MiB in
/// areas of one page in 40 s. A wake-up a second is no load to speak of, and none comes once
/// nothing is left.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The thread's name, for tools that list the threads of a program.
const NAME: &std::ffi::CStr = c"vmalloc-drain";

/// The thread's stack: a purge needs a few KiB of it, and the program's heap and
/// the thread-local variables of all its libraries need some room as well. Only what is touched
/// costs memory.
const STACK_BYTES: usize = 256 << 10;

/// After the n-th refusal in a row to create the thread, 2ⁿ requests pass before the next attempt,
/// at most this many. Each purges by itself, which takes longer than the attempt would.
const MOST_PASSED_OVER: u32 = 1 << 10;

thread_local! {
    /// The state that a drain thread shares with its space; null in other threads.
    static DRAINS: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Returns true if the calling thread drains a space.
///
/// For a global allocator that stands on a space of [`open`](crate::open()). A drain takes its lists
/// from the heap while the space is locked. So on this thread, as within its own calls of the
/// space, the allocator must take memory from elsewhere.
#[must_use]
pub fn on_drain_thread() -> bool {
    !DRAINS.get().is_null()
}

/// A space, as far as its drain thread knows it. The space stands above this file and implements
/// it.
pub(crate) trait Drain: Send + Sync {
    /// Gives back in one round what frees have left behind. [`DrainStatus::More`] asks for another
    /// round after a tick.
    fn drain(&self) -> DrainStatus;
}

/// A space's hold on its drain thread, which may not be there yet, or never. Dropped with the
/// space, it ends the thread.
#[derive(Debug, Default)]
pub(crate) struct DrainThread(OnceLock<Arc<Shared>>);

impl DrainThread {
    /// Allows a thread for `space`, whose platform this belongs to. It is created at the first
    /// request.
    pub(crate) fn allow(&self, space: Weak<dyn Drain>) {
        let worker = Mutex::new(Worker { thread: None, refusals: 0, passing_over: 0 });
        // A second call changes nothing.
        let _ = self.0.set(Arc::new(Shared { word: AtomicU32::new(NONE), worker, space }));
    }

    /// Asks for a drain, and returns true if it will come. Neither waits nor allocates, but for the
    /// creation of a thread.
    pub(crate) fn request(&self, due: DrainReason) -> bool {
        let Some(shared) = self.0.get() else { return false };
        if shared.word.load(Ordering::Relaxed) == NONE { shared.start(due) } else { shared.wake_for(due) }
    }

    /// Asks for a drain at once, and returns true if it will come: if the thread is there. One
    /// atomic operation and at most one system call, which can't fail and so leaves `errno` alone.
    /// A signal handler may do that.
    pub(crate) fn wake(&self) -> bool {
        self.0.get().is_some_and(|shared| shared.wake_for(DrainReason::Threshold))
    }

    /// Returns the hook for forks, if a thread is allowed.
    pub(crate) fn watch(&self) -> Option<Weak<Shared>> {
        self.0.get().map(Arc::downgrade)
    }
}

impl Drop for DrainThread {
    fn drop(&mut self) {
        let Some(shared) = self.0.get() else { return };
        if ptr::eq(DRAINS.get(), Arc::as_ptr(shared)) {
            // SAFETY: this thread is joinable: it is joined nowhere else, for its handle is taken
            // only here, once.
            unsafe { libc::pthread_detach(libc::pthread_self()) };
            return shared.word.store(STOP, Ordering::Relaxed);
        }
        let Some(thread) = shared.worker.lock().thread.take() else { return };
        shared.word.store(STOP, Ordering::Relaxed);
        shared.wake();
        // SAFETY: D1, and the handle was taken out, so this is the only join. The answer can only
        // be success.
        unsafe { libc::pthread_join(thread.0, ptr::null_mut()) };
    }
}

impl AtFork for Arc<Shared> {
    /// Waits for a drain, or for the thread's creation, and holds off the next.
    fn quiesce(&self) {
        std::mem::forget(self.worker.lock());
    }

    unsafe fn resume(&self) {
        // SAFETY: `force_unlock` asks that this thread holds the lock: the caller promises that it
        // has called `quiesce`, which forgot the guard.
        unsafe { self.worker.force_unlock() };
    }

    unsafe fn resume_in_child(&self) {
        self.word.store(NONE, Ordering::Relaxed);
        // SAFETY: locked by `quiesce`, whose guard is forgotten: no other reference to it is live.
        if unsafe { &mut *self.worker.data_ptr() }.thread.take().is_some() {
            // SAFETY: the pointer is that of a live `Arc`. By D1 one count belonged to the thread,
            // which is not there to use or to give it back; ours remains.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
        // SAFETY: as in `resume`: the caller promises that its parent has called `quiesce`.
        unsafe { self.worker.force_unlock() };
    }
}

/// The state that a space and its drain thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// [`NONE`], [`QUIET`], [`AGED`], [`DUE`] or [`STOP`].
    word: AtomicU32,
    /// Held over a drain, over the thread's creation, and over a fork.
    worker: Mutex<FutexLock, Worker>,
    space: Weak<dyn Drain>,
}

#[derive(Debug)]
struct Worker {
    thread: Option<Thread>,
    /// Attempts to create the thread that failed, in a row.
    refusals: u32,
    /// Requests to go before the next attempt.
    passing_over: u32,
}

/// The C library's name of a thread: a number, or a pointer (musl).
#[derive(Debug)]
struct Thread(libc::pthread_t);

// SAFETY: the name is only given to the C library, whose calls take it from any thread.
unsafe impl Send for Thread {}

impl Shared {
    /// Creates the thread, unless it is being created: by another thread, or by a caller of this
    /// one. (Creating a thread takes a little from the C library's heap. If that stands on this
    /// space, it may free, and get here.)
    #[cold]
    fn start(self: &Arc<Self>, due: DrainReason) -> bool {
        // Also held in a fork, which would not know of the new thread.
        let Some(mut worker) = self.worker.try_lock() else { return false };
        if worker.thread.is_some() {
            // Created since the word was read; its first drain comes without a request, once it
            // gets the lock.
            return true;
        }
        if worker.passing_over > 0 {
            worker.passing_over -= 1;
            return false;
        }
        let Ok(thread) = spawn(Arc::clone(self)) else {
            worker.refused();
            return false;
        };
        *worker = Worker { thread: Some(thread), refusals: 0, passing_over: 0 };
        let word = if due == DrainReason::Threshold { QUIET } else { AGED };
        self.word.store(word, Ordering::Relaxed);
        true
    }

    /// Asks the thread for a drain, and returns true if it will come: if the thread is there.
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
            // Another thread let it tick meanwhile, which is less than was asked for here.
            Err(AGED) if wanted == DUE => return self.ask(AGED, DUE),
            // Another thread was faster: the space is in use, so the word is not STOP.
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
        // A failure costs only the name.
        let _ = rustix::thread::set_name(NAME);
        // Once it is free, the word says what this was created for.
        drop(self.worker.lock());
        let mut goes_on = self.word.load(Ordering::Relaxed) != AGED || self.wait(DrainStatus::Done);
        while goes_on {
            let rest = self.drain();
            goes_on = self.wait(rest);
        }
    }

    /// One round. When it returns, the space may be gone, by this very call.
    fn drain(&self) -> DrainStatus {
        let _at_work = self.worker.lock();
        // D2: dropped before the lock.
        let Some(space) = self.space.upgrade() else { return DrainStatus::Done };
        space.drain()
    }

    /// Sleeps until a drain is due, by request or by age. Returns false when the thread is to end.
    fn wait(&self, rest: DrainStatus) -> bool {
        let mut timeout = (rest == DrainStatus::More).then_some(&TICK);
        loop {
            match self.word.load(Ordering::Relaxed) {
                STOP => return false,
                // Requests are taken back only by this thread, by the end of the space, and by a
                // fork in the child. So an exchange that fails has found STOP, or DUE after AGED:
                // the next look tells.
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

impl Worker {
    fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
        self.passing_over =
            1_u32.checked_shl(self.refusals).map_or(MOST_PASSED_OVER, |n| n.min(MOST_PASSED_OVER));
    }
}

/// Creates the drain thread.
///
/// By the C library, not by `std::thread`: that takes the thread's name, result and closure from
/// the program's heap, which may stand on this space. The C library maps the stack, and takes a few
/// hundred bytes for its table of thread-local blocks from its own heap.
fn spawn(shared: Arc<Shared>) -> Result<Thread, Errno> {
    let argument = Arc::into_raw(shared);
    // No handler of the program's may run on the thread: it would find neither the stack nor the
    // thread it expects.
    let created = with_signals_blocked(|| create(argument));
    if created.is_err() {
        // SAFETY: from `into_raw` above, and no thread has taken it over.
        drop(unsafe { Arc::from_raw(argument) });
    }
    created
}

fn create(argument: *const Shared) -> Result<Thread, Errno> {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: both have room for the values that are written. The attributes are initialized before
    // they are used, and destroyed once. The new thread runs `main` with the argument that it
    // expects.
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
        created.map(|()| Thread(thread.assume_init()))
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

/// Runs `body` with all signals but SIGSYS blocked. A thread that it creates inherits that mask.
/// (The C library keeps two others for itself.)
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: room for a set each; the first is filled before it is read. The call can't fail with
    // these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        // A filter (seccomp(2)) raises it. The kernel ends a process that blocks it then.
        libc::sigdelset(all.as_mut_ptr(), libc::SIGSYS);
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
        let mut worker = Worker { thread: None, refusals: 0, passing_over: 0 };
        let passed_over: Vec<_> = (0..40)
            .map(|_| {
                worker.refused();
                worker.passing_over
            })
            .collect();
        assert_eq!(passed_over[..3], [2, 4, 8]);
        assert_eq!(passed_over[9..].iter().max(), Some(&MOST_PASSED_OVER));
        assert_eq!(passed_over[9..].iter().min(), Some(&MOST_PASSED_OVER));
    }
}

#[cfg(all(test, loom))]
mod models;
