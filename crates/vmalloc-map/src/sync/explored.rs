//! The build for explored schedules. All threads of an exploration run in one thread of the system,
//! so what is set for it is thread-local.

extern crate std;

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
    static GRAIN: Cell<Grain> = const { Cell::new(Grain::Coarse) };
}

/// Runs `body` with these scheduling points.
pub fn explore<R>(grain: Grain, body: impl FnOnce() -> R) -> R {
    struct Reset(Grain);
    impl Drop for Reset {
        fn drop(&mut self) {
            GRAIN.set(self.0);
        }
    }
    let _reset = Reset(GRAIN.replace(grain));
    body()
}

/// Lets the scheduler choose which thread runs next. Not a yield: the running thread may be chosen
/// again.
pub fn point() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// A load or a store of a word comes next.
pub(super) fn look<T>(_word: &T) {
    if GRAIN.get() == Grain::Fine {
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
