//! The registry of hooks that run around each fork.

use crate::drain;
use crate::fork::{LoneForks, locks};
use crate::os::futex::{self, FutexLock};
use lock_api::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::thread::gettid;
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

/// Enters a hook of the thing that `watch` refers to.
pub(crate) fn add(watch: impl Watch) {
    let node = Box::new(Node { next: None, hook: Watched { watch, held: None } });
    let dead = REGISTRY.lock().add(node);
    // Back to the heap, which may wait for a fork: the registry is no longer held.
    drop(dead);
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

/// A place in a list of hooks. Allocated before it is entered and freed after it was taken out: the
/// registry uses no heap.
struct Node<H: ?Sized> {
    next: Option<Box<Node<dyn Hook>>>,
    hook: H,
}

/// Hooks, first in first out of the same end. No recursion goes down it, however long it is.
struct List(Option<Box<Node<dyn Hook>>>);

impl List {
    const EMPTY: Self = Self(None);

    fn push(&mut self, mut node: Box<Node<dyn Hook>>) {
        node.next = self.0.take();
        self.0 = Some(node);
    }

    fn pop(&mut self) -> Option<Box<Node<dyn Hook>>> {
        let mut node = self.0.take()?;
        self.0 = node.next.take();
        Some(node)
    }

    /// Moves everything to `other`, in the opposite order, and calls `act` for each on its way.
    fn turn_to(&mut self, other: &mut Self, mut act: impl FnMut(&mut (dyn Hook + 'static))) {
        while let Some(mut node) = self.pop() {
            act(&mut node.hook);
            other.push(node);
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

static REGISTRY: Mutex<FutexLock, Registry> = Mutex::new(Registry::new());

/// The hooks.
struct Registry {
    /// The newest first.
    hooks: List,
    /// In a fork: those that were prepared, the oldest first.
    prepared: List,
    count: usize,
    /// So many hooks are reason to look for dead ones.
    most: usize,
}

impl Registry {
    /// How many hooks there may be, dead ones included, before the first look.
    const FEW: usize = 64;

    const fn new() -> Self {
        Self { hooks: List::EMPTY, prepared: List::EMPTY, count: 0, most: Self::FEW }
    }

    /// Enters a hook, and returns those that were found dead. They are searched for when there are
    /// twice as many hooks as lived the last time: that is amortized over those added since.
    #[must_use]
    fn add(&mut self, node: Box<Node<dyn Hook>>) -> List {
        self.hooks.push(node);
        self.count += 1;
        let mut dead = List::EMPTY;
        if self.count > self.most {
            self.take_dead(&mut dead);
            self.most = (2 * self.count).max(Self::FEW);
        }
        dead
    }

    fn take_dead(&mut self, dead: &mut List) {
        let mut alive = List::EMPTY;
        self.count = 0;
        while let Some(node) = self.hooks.pop() {
            let is_alive = node.hook.is_alive();
            self.count += usize::from(is_alive);
            (if is_alive { &mut alive } else { &mut *dead }).push(node);
        }
        alive.turn_to(&mut self.hooks, |_| {});
    }

    fn prepare(&mut self) {
        self.hooks.turn_to(&mut self.prepared, |hook| hook.prepare());
    }

    /// Releases all locks that `prepare` took.
    ///
    /// # Safety
    /// This thread, or the one it was forked from, has called `prepare`, and not this since. In the
    /// child it is the only thread.
    unsafe fn release(&mut self, side: Side) {
        let mut node = self.prepared.0.as_deref();
        while let Some(Node { next, hook }) = node {
            // SAFETY: it asks for a call of `quiesce` before: all hooks of this list were prepared;
            // and for a single thread in the child, as the caller promises.
            unsafe { hook.release(side) };
            node = next.as_deref();
        }
    }

    /// Holds nothing any longer. All releases come first: the last reference may go, and a
    /// destructor may use a thing that was locked.
    fn unhold(&mut self) {
        self.prepared.turn_to(&mut self.hooks, |hook| hook.unhold());
    }
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
    if (!IS_SHARING.load(Ordering::Relaxed) && LONE.begin()) || is_prepared() {
        return;
    }
    let registry = MutexGuard::leak(REGISTRY.lock());
    drain::quiesce();
    registry.prepare();
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
    let registry = unsafe { &mut *REGISTRY.data_ptr() };
    // SAFETY: `prepare` prepared all its hooks, and called `drain::quiesce`. A child has one
    // thread.
    unsafe {
        registry.release(side);
        match side {
            Side::Parent => drain::resume(),
            Side::Child => drain::resume_in_child(),
        }
    }
    registry.unhold();
    // SAFETY: this thread locked it in `prepare`, and leaked the guard.
    unsafe { REGISTRY.force_unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Logs the calls that it gets.
    struct Noted {
        name: usize,
        log: Arc<std::sync::Mutex<Vec<(char, usize)>>>,
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

    fn add(registry: &mut Registry, noted: &Arc<Noted>) -> usize {
        let hook = Watched { watch: Arc::downgrade(noted), held: None };
        let mut dead = registry.add(Box::new(Node { next: None, hook }));
        std::iter::from_fn(|| dead.pop()).count()
    }

    #[test]
    fn the_newest_hook_is_prepared_first_and_released_last() {
        let log = Arc::default();
        let noted = [0, 1, 2, 3].map(|name| Arc::new(Noted { name, log: Arc::clone(&log) }));
        let mut registry = Registry::new();
        noted.iter().for_each(|noted| assert_eq!(add(&mut registry, noted), 0));
        let [first, second, third, fourth] = noted;
        drop(second);
        for _ in 0..2 {
            registry.prepare();
            // SAFETY: prepared just now.
            unsafe { registry.release(Side::Parent) };
            registry.unhold();
            let expected = [('p', 3), ('p', 2), ('p', 0), ('r', 0), ('r', 2), ('r', 3)];
            assert_eq!(std::mem::take(&mut *log.lock().unwrap()), expected);
        }
        let alive = [first, third, fourth].map(|noted| Arc::strong_count(&noted));
        assert_eq!(alive, [1; 3], "nothing is kept alive after a fork");
    }

    #[test]
    fn dead_hooks_are_taken_out_again_and_again_and_the_order_stays() {
        let log = Arc::default();
        let new = |name| Arc::new(Noted { name, log: Arc::clone(&log) });
        let mut registry = Registry::new();
        let (mut alive, mut dead) = (Vec::new(), 0);
        for name in 0..10_000 {
            let noted = new(name);
            dead += add(&mut registry, &noted);
            if name % 10 == 0 {
                alive.push(noted);
            }
            assert!(registry.count <= (2 * alive.len()).max(Registry::FEW) + 1, "{} hooks", registry.count);
        }
        assert_eq!(registry.count + dead, 10_000);
        registry.prepare();
        let expected = alive.iter().rev().map(|noted| ('p', noted.name));
        assert!(log.lock().unwrap().iter().copied().eq(expected));
    }
}
