//! The ordinary build.

pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Chooses a bound: an exploration makes it smaller, and so does Miri, which is a thousand times
/// slower.
pub const fn size(ordinary: u64, explored: u64) -> u64 {
    if cfg!(miri) { explored } else { ordinary }
}
