//! The registry of hooks that run around each fork.

use crate::drain;
use crate::fork::{LoneForks, locks};
use crate::os::fatal::fatal;
use crate::os::futex::{self, FutexLock};
use lock_api::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::thread::gettid;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// A thing with locks, or with threads of its own, that takes part in each `fork`.
///
/// The methods run in the forking thread, with the registry and all hooks registered later locked.
/// They must not fork, or register a hook.
pub(crate) trait AtFork: Send {
    /// Takes all locks, before the fork.
    fn quiesce(&self);

    /// Releases the locks in the process that forked, also when the fork failed.
    ///
    /// # Safety
    /// This thread has called `quiesce`, and neither this nor `resume_in_child` since.
    unsafe fn resume(&self);

    /// Releases the locks in the child. It also replaces the threads that the child lacks, and ends
    /// what those were doing.
    ///
    /// # Safety
    /// The thread that this one was forked from has called `quiesce`, and neither this nor `resume`
    /// since. It is the only thread.
    unsafe fn resume_in_child(&self);
}

/// A reference to a thing that it does not keep alive.
pub(crate) trait Watch: Send + 'static {
    /// A reference that keeps the thing alive.
    type Held: AtFork;

    /// Returns true if the thing is still there.
    fn is_alive(&self) -> bool;
    /// Keeps the thing alive, if it is still there.
    fn hold(&self) -> Option<Self::Held>;
}

/// The process that goes on after a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// The process that forked, also when the fork failed.
    Parent,
    /// The new process.
    Child,
}

/// A hook of any kind.
trait Hook: Send {
    fn is_alive(&self) -> bool;
    /// Takes all locks of the watched thing, if it is alive, and keeps it alive.
    fn prepare(&mut self);
    /// Releases the locks that `prepare` took.
    ///
    /// # Safety
    /// That of [`AtFork::resume`] in the parent, and of [`AtFork::resume_in_child`] in the child.
    unsafe fn release(&self, side: Side);
    /// Keeps the watched thing alive no longer.
    fn unhold(&mut self);
}

/// A hook of a watched thing. `held` is set between `prepare` and `unhold`: a thing that was locked
/// has to be there to be unlocked.
struct Watched<W: Watch> {
    watch: W,
    held: Option<W::Held>,
}

impl<W: Watch> Hook for Watched<W> {
    fn is_alive(&self) -> bool {
        self.watch.is_alive()
    }

    fn prepare(&mut self) {
        self.held = self.watch.hold();
        self.held.iter().for_each(W::Held::quiesce);
    }

    unsafe fn release(&self, side: Side) {
        let Some(held) = &self.held else { return };
        // SAFETY: both ask for a call of `quiesce`, which `prepare` made for all that it holds; in
        // the child for a single thread, as the caller promises.
        unsafe {
            match side {
                Side::Parent => held.resume(),
                Side::Child => held.resume_in_child(),
            }
        }
    }

    fn unhold(&mut self) {
        self.held = None;
    }
}

/// Hooks, the oldest first.
type Hooks = Vec<Box<dyn Hook>>;

static REGISTRY: Mutex<FutexLock, Hooks> = Mutex::new(Hooks::new());

/// How many hooks there may be, dead ones included, before dead ones are looked for.
const FEW: usize = 64;

/// Enters a hook of the thing that `watch` refers to. Amortized O(1).
pub(crate) fn add(watch: impl Watch) {
    add_to(&REGISTRY, watch);
}

/// Enters a hook. Where the registry is full, those of things that are still there move to another
/// vector, with room for twice as many. The heap may wait for a fork, so it is used while the
/// registry is not locked.
fn add_to(registry: &Mutex<FutexLock, Hooks>, watch: impl Watch) {
    let hook = Box::new(Watched { watch, held: None });
    let (mut room, mut dead) = (Hooks::new(), Hooks::new());
    loop {
        let mut hooks = registry.lock();
        if hooks.len() == hooks.capacity() {
            let (count, alive) = (hooks.len(), hooks.iter().filter(|hook| hook.is_alive()).count());
            if room.capacity() <= alive || dead.capacity() < count {
                drop(hooks);
                (room, dead) = (Hooks::with_capacity((2 * alive).max(FEW)), Hooks::with_capacity(count));
                continue;
            }
            // None comes back to life: what was counted has room.
            hooks.drain(..).for_each(|it| if it.is_alive() { room.push(it) } else { dead.push(it) });
            mem::swap(&mut *hooks, &mut room);
        }
        return hooks.push(hook);
    }
}

/// Takes the locks of all hooks, the newest first.
fn prepare_all(hooks: &mut Hooks) {
    hooks.iter_mut().rev().for_each(|hook| hook.prepare());
}

/// Releases all locks that `prepare_all` took, the oldest hook first.
///
/// # Safety
/// This thread, or the one it was forked from, has called `prepare_all`, and not this since. In the
/// child it is the only thread.
unsafe fn release_all(hooks: &Hooks, side: Side) {
    // SAFETY: it asks for a call of `quiesce` before: all hooks were prepared; and for a single
    // thread in the child, as the caller promises.
    hooks.iter().for_each(|hook| unsafe { hook.release(side) });
}

/// Installs the handlers below, so that they run around each fork of this process that begins after
/// this returns.
pub(crate) fn install() -> Result<(), Errno> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: nothing else is published. Threads that come together each install the handlers, and
    // so does the child of a fork that came between the two steps: see `AGAIN`.
    if INSTALLED.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the handlers are functions for the life of the program, and do not unwind: a panic in
    // one aborts.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => {
            INSTALLED.store(true, Ordering::Relaxed);
            Ok(())
        }
        code => Err(Errno::from_raw_os_error(code)),
    }
}

/// The thread whose fork the handlers have prepared; 0: none.
static FORKING: AtomicI32 = AtomicI32::new(0);

/// How many more times the handlers were called for this fork: so many times they are installed
/// beside the first. The last call after the fork is the one that counts.
static AGAIN: AtomicUsize = AtomicUsize::new(0);

/// Returns true, and counts, if the handlers have prepared this thread's fork already.
fn is_prepared() -> bool {
    // Relaxed, here and below: a thread finds its own number if it has stored it itself. What
    // `AGAIN` counts is that thread's, and the only one's in the child.
    let is_ours = FORKING.load(Ordering::Relaxed) == gettid().as_raw_nonzero().get();
    AGAIN.fetch_add(usize::from(is_ours), Ordering::Relaxed);
    is_ours
}

/// Returns true, and counts, if the handlers will be called once more for this fork.
fn is_to_come() -> bool {
    let less = AGAIN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |again| again.checked_sub(1));
    if less.is_err() {
        FORKING.store(0, Ordering::Relaxed);
    }
    less.is_ok()
}

/// Forks without locks, in a process of one thread.
static LONE: LoneForks = LoneForks::new();

/// True once something is in use that parent and child share.
static IS_SHARING: AtomicBool = AtomicBool::new(false);

/// Has forks take locks from now on, also in a process of one thread: a call that goes on in the
/// child might act on what is the parent's.
pub(crate) fn lock_always() {
    // Relaxed: a process of one thread reads it.
    IS_SHARING.store(true, Ordering::Relaxed);
}

extern "C" fn prepare() {
    if drain::on_drain_thread() {
        // It holds `at_work`, for which another fork may wait with the registry locked.
        fatal(&"a notifier forked on the drain thread, which would wait for itself");
    }
    if (!IS_SHARING.load(Ordering::Relaxed) && LONE.begin()) || is_prepared() {
        return;
    }
    let hooks = MutexGuard::leak(REGISTRY.lock());
    drain::quiesce();
    prepare_all(hooks);
    locks::lock_all();
    FORKING.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
}

extern "C" fn parent() {
    if !LONE.end() && !is_to_come() {
        release(Side::Parent);
        drain::attend();
    }
}

extern "C" fn child() {
    let is_lone = LONE.end();
    if !is_lone && is_to_come() {
        return;
    }
    locks::begin_generation();
    if is_lone {
        // No thread is missing. What this one was interrupted in goes on, and its locks are its own
        // in this generation of locks.
        return;
    }
    release(Side::Child);
    // Last: all locks that the hooks held are released. No thread will unlock the others.
    futex::begin_generation();
}

fn release(side: Side) {
    // SAFETY: `prepare` called `lock_all` in this thread: the C library pairs the handlers, and
    // `LONE` tells of no fork without locks.
    unsafe { locks::unlock_all() };
    // SAFETY: the registry is still locked by this thread, whose guard was leaked, so no other
    // reference to it is live.
    let hooks = unsafe { &mut *REGISTRY.data_ptr() };
    // SAFETY: `prepare` prepared all hooks, and called `drain::quiesce`. A child has one thread.
    unsafe {
        release_all(hooks, side);
        match side {
            Side::Parent => drain::resume(),
            Side::Child => drain::resume_in_child(),
        }
    }
    // After all releases: the last reference may go, and a destructor may use a thing that was
    // locked.
    hooks.iter_mut().for_each(|hook| hook.unhold());
    // SAFETY: this thread locked it in `prepare`, and leaked the guard.
    unsafe { REGISTRY.force_unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Weak};

    /// Logs the calls that it gets.
    struct Noted {
        name: usize,
        log: Log,
    }

    impl AtFork for Arc<Noted> {
        fn quiesce(&self) {
            self.log.lock().unwrap().push(('p', self.name));
        }

        unsafe fn resume(&self) {
            self.log.lock().unwrap().push(('r', self.name));
        }

        unsafe fn resume_in_child(&self) {}
    }

    type Log = Arc<std::sync::Mutex<Vec<(char, usize)>>>;

    #[test]
    fn the_newest_hook_is_prepared_first_and_released_last() {
        let (log, registry) = (Log::default(), Mutex::new(Hooks::new()));
        let noted = [0, 1, 2, 3].map(|name| Arc::new(Noted { name, log: Arc::clone(&log) }));
        noted.iter().for_each(|noted| add_to(&registry, Arc::downgrade(noted)));
        let [first, second, third, fourth] = noted;
        drop(second);
        for _ in 0..2 {
            let hooks = &mut registry.lock();
            prepare_all(hooks);
            // SAFETY: prepared just now.
            unsafe { release_all(hooks, Side::Parent) };
            hooks.iter_mut().for_each(|hook| hook.unhold());
            let expected = [('p', 3), ('p', 2), ('p', 0), ('r', 0), ('r', 2), ('r', 3)];
            assert_eq!(mem::take(&mut *log.lock().unwrap()), expected);
        }
        let alive = [first, third, fourth].map(|noted| Arc::strong_count(&noted));
        assert_eq!(alive, [1; 3], "nothing is kept alive after a fork");
    }

    static OWN: Mutex<FutexLock, Hooks> = Mutex::new(Hooks::new());

    /// Checks that it goes back to the heap while the registry is not locked.
    struct Checked(Weak<Noted>);

    impl Watch for Checked {
        type Held = Arc<Noted>;

        fn is_alive(&self) -> bool {
            self.0.is_alive()
        }

        fn hold(&self) -> Option<Arc<Noted>> {
            self.0.hold()
        }
    }

    impl Drop for Checked {
        fn drop(&mut self) {
            assert!(OWN.try_lock().is_some(), "the heap may wait for a fork");
        }
    }

    #[test]
    fn dead_hooks_are_taken_out_again_and_again_and_the_order_stays() {
        let (log, mut alive) = (Log::default(), Vec::new());
        for name in 0..10_000 {
            let noted = Arc::new(Noted { name, log: Arc::clone(&log) });
            add_to(&OWN, Checked(Arc::downgrade(&noted)));
            if name % 10 == 0 {
                alive.push(noted);
            }
            let count = OWN.lock().len();
            assert!(count <= (2 * alive.len()).max(FEW) + 1, "{count} hooks");
        }
        prepare_all(&mut OWN.lock());
        let expected = alive.iter().rev().map(|noted| ('p', noted.name));
        assert!(log.lock().unwrap().iter().copied().eq(expected));
    }
}
