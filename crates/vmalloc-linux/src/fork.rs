//! What has to happen around `fork`.
//!
//! The child gets a copy of all memory and of one thread, the one that forked. Areas, guard pages
//! and books are copied with it and stay right. A lock that some *other* thread held at that moment
//! would stay locked for ever, and what it protects would be half changed. So all locks are taken
//! before a fork and released on both sides after it. Each space and each root has a [hook](AtFork)
//! for that, and so has each drain thread.
//!
//! ```text
//!   newest ──► … ──► oldest       each hook refers weakly to a space, a root or a drain thread
//!   prepare ──────►
//!   ◄────── release
//!
//!   a drain thread ─► its space
//!   a space over a child ─► its root ─► the root that lent that root's platform ─► …
//!        … ─► SUPPLY ─► OPENING
//! ```
//!
//! That is the order of locks: what stands on something was made after it, and registered at once.
//!
//! # Lock order
//! The registry; then the locks of the hooks, newest hook first; last the platform's own [`SUPPLY`]
//! and [`OPENING`], under neither of which anything else is taken. They are released in the
//! opposite order, the oldest hook first: what a newer one has to mend may take memory from a heap
//! that stands on an older one.
//!
//! No heap is used under the registry but in a fork. So a heap with hooks of its own, from which
//! spaces take their lists, has to install them before the first reservation; that of glibc comes
//! last in any case.
//!
//! # What others were in the middle of
//! Each kind of hook says for its own state what the child does about it: `Space::resume_in_child`,
//! [`vmalloc_subspaces`], [`drainer`](crate::drainer).
//!
//! The platform has no state between its calls, so a `map` or `unmap` that another thread was in
//! the middle of harms nobody, but it is not finished in the child either: a purge is waited for,
//! and what is mapped for an area goes with the area, which is that thread's for ever.
//!
//! # What runs no hooks
//! A fork that bypasses the C library (a bare `clone`), or `vfork`. And a space or a root that was
//! not made by [`open`](crate::open), [`share`](crate::share) or [`open_root`](crate::open_root)
//! has none. A child that asks for a lock of such a space that was held at the fork stops with a
//! message, see [`FutexLock`].
//!
//! # Nothing safe unlocks
//! Hooks are private. What they call of spaces and roots is public, and `unsafe` where it unlocks;
//! to lock is safe, since the worst that comes of it is a thread that waits for ever.
//!
//! ```
//! # use vmalloc_linux::{Linux, Options, open, open_root};
//! # let space = open(Options::new(), vmalloc::Config::default()).unwrap();
//! # let root = open_root(Linux::reserve(Options::new()).unwrap()).unwrap();
//! space.quiesce();
//! root.quiesce();
//! // SAFETY: this thread has just called `quiesce` of both.
//! unsafe {
//!     root.resume();
//!     space.resume();
//! }
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{Options, open};
//! # let space = open(Options::new(), vmalloc::Config::default()).unwrap();
//! space.resume();
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{Options, open};
//! # let space = open(Options::new(), vmalloc::Config::default()).unwrap();
//! space.resume_in_child();
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{Linux, Options, open_root};
//! # let root = open_root(Linux::reserve(Options::new()).unwrap()).unwrap();
//! root.resume();
//! ```
//! ```compile_fail,E0599
//! # use vmalloc_linux::{Options, open};
//! # let space = open(Options::new(), vmalloc::Config::default()).unwrap();
//! space.prepare();
//! ```
//! ```compile_fail,E0603
//! use vmalloc_linux::fork::AtFork;
//! ```

use crate::lock::{self, FutexLock};
use crate::markers::OPENING;
use crate::supply::SUPPLY;
use lock_api::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use thiserror::Error;
use vmalloc::{Platform, Space};
use vmalloc_subspaces::{Root, WeakRoot};

/// A platform whose locks may be unlocked on both sides of a fork.
pub trait OnFutexes: Platform<RawLock = FutexLock, PurgeLock = FutexLock> + Send + 'static {}

impl<P: Platform<RawLock = FutexLock, PurgeLock = FutexLock> + Send + 'static> OnFutexes for P {}

/// Something with locks, or with threads of its own, that has to know of each `fork`.
///
/// The methods run in the forking thread, with the registry and all hooks registered later locked. They must
/// not fork, or register a hook.
pub(crate) trait AtFork: Send {
    /// Before the fork: takes all locks.
    fn prepare(&self);

    /// After it: releases them. In the child it also replaces what the child lacks, such as
    /// threads, and ends what those were doing.
    ///
    /// # Safety
    /// This thread, or the one it was forked from, has called `prepare`, and not this since. In the
    /// child it is the only thread.
    unsafe fn release(&self, side: Side);
}

/// The process that goes on after a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The one that forked, be it that the fork failed.
    Parent,
    /// The new one.
    Child,
}

impl<P: OnFutexes> AtFork for Arc<Space<P>> {
    fn prepare(&self) {
        self.quiesce();
    }

    unsafe fn release(&self, side: Side) {
        // SAFETY: the caller's promises are those that are asked for.
        unsafe {
            match side {
                Side::Parent => self.resume(),
                Side::Child => self.resume_in_child(),
            }
        }
    }
}

impl<P: OnFutexes> AtFork for Root<P> {
    fn prepare(&self) {
        self.quiesce();
    }

    unsafe fn release(&self, side: Side) {
        // SAFETY: the caller's promises are those that are asked for.
        unsafe {
            match side {
                Side::Parent => self.resume(),
                Side::Child => self.resume_in_child(),
            }
        }
    }
}

/// A reference to something that it does not keep alive.
pub(crate) trait Watch: Send + 'static {
    /// A reference that does.
    type Held: AtFork;

    /// Whether it is still there.
    fn is_alive(&self) -> bool;
    /// Keeps it alive, if it is.
    fn hold(&self) -> Option<Self::Held>;
}

impl<T: Send + Sync + 'static> Watch for Weak<T>
where
    Arc<T>: AtFork,
{
    type Held = Arc<T>;

    fn is_alive(&self) -> bool {
        self.strong_count() > 0
    }

    fn hold(&self) -> Option<Arc<T>> {
        self.upgrade()
    }
}

impl<P: OnFutexes> Watch for WeakRoot<P> {
    type Held = Root<P>;

    fn is_alive(&self) -> bool {
        self.is_alive()
    }

    fn hold(&self) -> Option<Root<P>> {
        self.upgrade()
    }
}

/// Why a space or root could not be made safe against forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The C library refused to call anything around forks.
    #[error("pthread_atfork failed (errno {code})")]
    Refused {
        /// What it answered.
        code: i32,
    },
}

/// Calls the hook of what `watch` refers to around each fork, for as long as that lives. Amortized
/// O(1).
///
/// # Errors
/// When the C library is out of memory.
pub(crate) fn register(watch: impl Watch) -> Result<(), RegisterError> {
    install().map_err(|errno| RegisterError::Refused { code: errno.raw_os_error() })?;
    let node = Box::new(Node { next: None, hook: Watched { watch, held: None } });
    let dead = REGISTRY.lock().add(node);
    // Back to the heap, which may wait for a fork: the registry is no longer held.
    drop(dead);
    Ok(())
}

/// A hook whatever it is for.
trait Hook: Send {
    fn is_alive(&self) -> bool;
    /// Takes all locks, if it is alive, and keeps it alive.
    fn prepare(&mut self);
    /// # Safety
    /// As for [`AtFork::release`].
    unsafe fn release(&self, side: Side);
    /// Keeps it alive no longer.
    fn let_go(&mut self);
}

/// `held` is set between `prepare` and `let_go`: what was locked has to be found alive.
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
        self.held.iter().for_each(W::Held::prepare);
    }

    unsafe fn release(&self, side: Side) {
        // SAFETY: the caller's promise; what was not alive was not prepared, and is not held.
        self.held.iter().for_each(|held| unsafe { held.release(side) });
    }

    fn let_go(&mut self) {
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

    /// Enters a hook; those that were found dead. They are looked for when there are twice as many
    /// hooks as lived the last time: that is amortized over those added since.
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

    /// All releases come first: letting go may drop something, whose destructor may use what was
    /// locked.
    ///
    /// # Safety
    /// As for [`AtFork::release`].
    unsafe fn release(&mut self, side: Side) {
        let mut node = self.prepared.0.as_deref();
        while let Some(Node { next, hook }) = node {
            // SAFETY: the caller's promise.
            unsafe { hook.release(side) };
            node = next.as_deref();
        }
        self.prepared.turn_to(&mut self.hooks, |hook| hook.let_go());
    }
}

/// Sees to it that the handlers below run around each fork of this process.
pub(crate) fn install() -> Result<(), Errno> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: one thread wins; nothing else is published. (A fork on another thread while the winner is
    // still at it goes unseen.)
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the handlers are functions for the life of the program, and do not unwind: a panic in one
    // aborts.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        code => {
            INSTALLED.store(false, Ordering::Relaxed);
            Err(Errno::from_raw_os_error(code))
        }
    }
}

/// How many forks this process is away from the one that installed the handlers.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that no ancestor of this process has had.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn prepare() {
    MutexGuard::leak(REGISTRY.lock()).prepare();
    MutexGuard::leak(SUPPLY.lock());
    MutexGuard::leak(OPENING.lock());
}

extern "C" fn parent() {
    release(Side::Parent);
}

extern "C" fn child() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    release(Side::Child);
    // Last: all that the hooks held is released. What is still locked, nobody will unlock.
    lock::begin_generation();
}

fn release(side: Side) {
    // SAFETY: `prepare` locked both, in this thread, and leaked the guards; the C library pairs the handlers.
    unsafe {
        OPENING.force_unlock();
        SUPPLY.force_unlock();
    }
    // SAFETY: as above: the registry is still locked by this thread, and no other reference to it
    // is live. All its hooks were prepared.
    unsafe { (*REGISTRY.data_ptr()).release(side) };
    // SAFETY: as above.
    unsafe { REGISTRY.force_unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down what is asked of it.
    struct Noted {
        name: usize,
        log: Arc<std::sync::Mutex<Vec<(char, usize)>>>,
    }

    impl AtFork for Arc<Noted> {
        fn prepare(&self) {
            self.log.lock().unwrap().push(('p', self.name));
        }

        unsafe fn release(&self, _: Side) {
            self.log.lock().unwrap().push(('r', self.name));
        }
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
