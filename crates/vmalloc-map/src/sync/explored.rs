//! The build for explored schedules. All threads of an exploration run in one thread of the system,
//! so what is set for it is thread-local.

extern crate std;

use super::Mutant;
use core::time::Duration;
use std::cell::Cell;

/// The operations that are scheduling points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grain {
    /// Those that read and write at once, and all that concern locks: enough where every look is
    /// under a lock.
    #[default]
    Coarse,
    /// Loads and stores too.
    Fine,
}

std::thread_local! {
    static SETUP: Cell<(Grain, Option<Mutant>)> = const { Cell::new((Grain::Coarse, None)) };
    static UNLOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with these scheduling points, and this protocol broken.
pub fn explore<R>(grain: Grain, mutant: Option<Mutant>, body: impl FnOnce() -> R) -> R {
    struct Reset((Grain, Option<Mutant>));
    impl Drop for Reset {
        fn drop(&mut self) {
            SETUP.set(self.0);
        }
    }
    let _reset = Reset(SETUP.replace((grain, mutant)));
    body()
}

/// Lets the scheduler choose which thread runs next. Not a yield: the running thread may be chosen
/// again.
pub fn point() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// A load or a store of a word comes next.
pub(super) fn look<T>(_word: &T) {
    if SETUP.get().0 == Grain::Fine {
        point();
    }
}

/// An operation that reads and writes a word at once comes next.
pub(super) fn change<T>(_word: &T) {
    point();
}

pub const fn size(_ordinary: u64, explored: u64) -> u64 {
    explored
}

/// Returns true if this exploration breaks the protocol in this way.
pub fn is(mutant: Mutant) -> bool {
    SETUP.get().1 == Some(mutant)
}

/// Takes a lock that lets the caller in at once if the protocol is broken in this way.
pub fn unlocked<R>(mutant: Mutant, lock: impl FnOnce() -> R) -> R {
    UNLOCKS.set(is(mutant));
    lock()
}

/// Returns whether the lock that asks lets its caller in while another holds it. It asks before it
/// lets another thread run.
pub fn unlocks() -> bool {
    UNLOCKS.replace(false)
}
