//! CPUs that one thread plays in turn, and a drain thread that comes to its turn as well.

use crate::adapter::{CpuHint, Drains};
use std::cell::Cell;
use vmalloc::DrainReason;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
    static DRAIN_IS_DUE: Cell<bool> = const { Cell::new(false) };
}

/// Begins a new play: the first CPU has its turn, and no drain is due.
pub fn restart() {
    turn_to(0);
    DRAIN_IS_DUE.set(false);
}

/// Gives the turn to a CPU.
pub fn turn_to(cpu: usize) {
    CPU.set(cpu);
}

/// Returns whether a drain was asked for at once since the last call.
pub fn take_drain() -> bool {
    DRAIN_IS_DUE.replace(false)
}

/// The CPU whose turn it is, of so many.
#[derive(Clone, Copy, Debug)]
pub struct Played(pub usize);

impl CpuHint for Played {
    fn cpu(&self) -> usize {
        CPU.get()
    }

    fn cpus(&self) -> usize {
        self.0
    }
}

/// A thread that drains when it comes to its turn.
#[derive(Clone, Copy, Debug)]
pub struct Later;

impl Drains for Later {
    fn drain_later(&self, due: DrainReason) -> bool {
        if due == DrainReason::Threshold {
            DRAIN_IS_DUE.set(true);
        }
        true
    }
}
