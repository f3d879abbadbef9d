//! Which simulated CPU a thread runs on.

use std::cell::Cell;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Binds the calling thread.
pub(crate) fn bind(cpu: usize) {
    CPU.set(cpu);
}

/// Returns the CPU that the calling thread was bound to, else 0.
pub(crate) fn bound() -> usize {
    CPU.get()
}
