//! What has to happen around `fork`.
//!
//! The child gets a copy of all memory and of one thread, the one that forked. Areas, guard pages and books
//! are copied with it and stay right. A lock that some *other* thread held at that moment would stay locked
//! for ever, and what it protects would be half changed. So all locks are taken before a fork and released on
//! both sides after it; a higher layer adds its own through [`AtFork`].
//!
//! Lock order: the registry; then the locks of the hooks, newest hook first (layers are built from the bottom
//! up); last the platform's own [`SUPPLY`] and [`OPENING`], under neither of which anything else is taken.
//!
//! The platform has no state between its calls, so a `map` or `unmap` that another thread was in the middle
//! of harms nobody, but it is not finished in the child either: whoever called it must wait for it in
//! [`AtFork::prepare`], or do it again in [`AtFork::child`].
//!
//! A fork that bypasses the C library (a bare `clone`), or `vfork`, runs no hooks.

use crate::lock::FutexLock;
use crate::markers::OPENING;
use crate::supply::SUPPLY;
use lock_api::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use thiserror::Error;

/// Something with locks, or with threads of its own, that has to know of each `fork`.
///
/// The methods run in the forking thread, with the registry and all hooks registered later locked. They must
/// not fork, or register a hook.
pub trait AtFork: Send + Sync {
    /// Before the fork: take all locks, newest layer first.
    fn prepare(&self);
    /// After it, in the parent (or when the fork failed): release them.
    fn parent(&self);
    /// After it, in the child: release them, and replace what the child lacks, such as threads.
    fn child(&self);
}

/// Why a hook could not be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There are as many living hooks as there is room for.
    #[error("all {CAPACITY} places for fork hooks are taken")]
    Full,
    /// The C library refused to call anything around forks.
    #[error("pthread_atfork failed (errno {code})")]
    Refused {
        /// What it answered.
        code: i32,
    },
}

/// How many hooks there may be. Fixed, so that registering needs no heap, which may be what registers. A hook
/// is a heap or an address space, of which programs have a few.
const CAPACITY: usize = 64;

/// Calls `hook` around each fork, for as long as it lives. O(hooks), of which there may be 64.
///
/// # Errors
/// When the registry is full, or the C library is out of memory.
pub fn register(hook: Weak<dyn AtFork>) -> Result<(), RegisterError> {
    add(Hook::Shared { hook, held: None })
}

/// Calls `hook` around each fork from now on. O(hooks), as [`register`].
///
/// # Errors
/// When the registry is full, or the C library is out of memory.
pub fn register_static(hook: &'static dyn AtFork) -> Result<(), RegisterError> {
    add(Hook::Static(hook))
}

fn add(hook: Hook) -> Result<(), RegisterError> {
    install().map_err(|errno| RegisterError::Refused { code: errno.raw_os_error() })?;
    REGISTRY.lock().add(hook)
}

static REGISTRY: Mutex<FutexLock, Registry> =
    Mutex::new(Registry { hooks: [const { Hook::None }; CAPACITY] });

enum Hook {
    None,
    Static(&'static dyn AtFork),
    /// `held` is set between `prepare` and `parent` or `child`, which must find the hook alive.
    Shared {
        hook: Weak<dyn AtFork>,
        held: Option<Arc<dyn AtFork>>,
    },
}

impl Hook {
    fn is_alive(&self) -> bool {
        match self {
            Self::None => false,
            Self::Static(_) => true,
            Self::Shared { hook, .. } => hook.strong_count() > 0,
        }
    }

    fn prepare(&mut self) {
        match self {
            Self::None => {}
            Self::Static(hook) => hook.prepare(),
            Self::Shared { hook, held } => {
                *held = hook.upgrade();
                if let Some(hook) = held {
                    hook.prepare();
                }
            }
        }
    }

    fn release(&self, side: Side) {
        match (self, side) {
            (Self::Static(hook), Side::Parent) => hook.parent(),
            (Self::Static(hook), Side::Child) => hook.child(),
            (Self::Shared { held: Some(hook), .. }, Side::Parent) => hook.parent(),
            (Self::Shared { held: Some(hook), .. }, Side::Child) => hook.child(),
            (Self::None | Self::Shared { held: None, .. }, _) => {}
        }
    }

    fn let_go(&mut self) {
        if let Self::Shared { held, .. } = self {
            *held = None;
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Parent,
    Child,
}

/// The hooks, oldest first; places behind the last one are `None`.
struct Registry {
    hooks: [Hook; CAPACITY],
}

impl Registry {
    fn add(&mut self, hook: Hook) -> Result<(), RegisterError> {
        self.forget_dead();
        let place =
            self.hooks.iter_mut().find(|place| matches!(place, Hook::None)).ok_or(RegisterError::Full)?;
        *place = hook;
        Ok(())
    }

    /// Moves the living hooks to the front, in order.
    fn forget_dead(&mut self) {
        let mut end = 0;
        for place in 0..CAPACITY {
            if self.hooks[place].is_alive() {
                self.hooks.swap(end, place);
                end += 1;
            }
        }
        self.hooks[end..].fill_with(|| Hook::None);
    }

    /// All releases come first: letting go may drop a hook, whose destructor may use what was locked.
    fn release(&mut self, side: Side) {
        self.hooks.iter().for_each(|hook| hook.release(side));
        self.hooks.iter_mut().for_each(Hook::let_go);
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
    let registry = MutexGuard::leak(REGISTRY.lock());
    registry.hooks.iter_mut().rev().for_each(Hook::prepare);
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
}

fn release(side: Side) {
    // SAFETY: `prepare` locked both, in this thread, and leaked the guards; the C library pairs the handlers.
    unsafe {
        OPENING.force_unlock();
        SUPPLY.force_unlock();
    }
    // SAFETY: as above: the registry is still locked by this thread, and no other reference to it is live.
    unsafe { &mut *REGISTRY.data_ptr() }.release(side);
    // SAFETY: as above.
    unsafe { REGISTRY.force_unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Idle;

    impl AtFork for Idle {
        fn prepare(&self) {}
        fn parent(&self) {}
        fn child(&self) {}
    }

    #[test]
    fn a_full_registry_says_so_until_a_hook_dies() {
        let mut registry = Registry { hooks: [const { Hook::None }; CAPACITY] };
        let mut alive: Vec<Arc<Idle>> = (0..CAPACITY).map(|_| Arc::new(Idle)).collect();
        let shared = |hook: &Arc<Idle>| {
            let hook: Weak<Idle> = Arc::downgrade(hook);
            Hook::Shared { hook, held: None }
        };
        for hook in &alive {
            assert_eq!(registry.add(shared(hook)), Ok(()));
        }
        assert_eq!(registry.add(Hook::Static(&Idle)), Err(RegisterError::Full));
        drop(alive.remove(CAPACITY / 2));
        assert_eq!(registry.add(Hook::Static(&Idle)), Ok(()));
        // In the order of registration: the newest is the last.
        assert!(matches!(registry.hooks[CAPACITY - 1], Hook::Static(_)));
    }
}
