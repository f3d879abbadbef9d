//! The ordinary build.

use super::Mutant;

pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Chooses a bound: an exploration makes it smaller, and so does Miri, which is a thousand times
/// slower.
pub const fn size(ordinary: u64, explored: u64) -> u64 {
    if cfg!(miri) { explored } else { ordinary }
}

/// Takes a lock, unless the protocol is broken in this way.
#[inline(always)]
pub fn unlocked<R>(_: Mutant, lock: impl FnOnce() -> R) -> R {
    lock()
}

/// Returns whether the protocol is broken in this way.
#[inline(always)]
pub const fn is(_: Mutant) -> bool {
    false
}
