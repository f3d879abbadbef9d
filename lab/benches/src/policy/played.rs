//! CPUs that one thread plays in turn, and a drain thread that comes to its turn as well.

use std::cell::Cell;
use vmalloc::DrainReason;
use vmalloc_kit::cpu;
use vmalloc_kit::null::Drains;

thread_local! {
    static DRAIN_IS_DUE: Cell<bool> = const { Cell::new(false) };
}

/// Begins a new play: the first CPU has its turn, and no drain is due.
pub(super) fn restart() {
    turn_to(0);
    DRAIN_IS_DUE.set(false);
}

/// Gives the turn to a CPU.
pub(super) fn turn_to(cpu: usize) {
    cpu::play(Some(cpu));
}

/// Returns whether a drain was asked for at once since the last call.
pub(super) fn take_drain() -> bool {
    DRAIN_IS_DUE.replace(false)
}

/// A thread that drains when it comes to its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later;

impl Drains for Later {
    fn drain_later(&self, due: DrainReason) -> bool {
        if due == DrainReason::Threshold {
            DRAIN_IS_DUE.set(true);
        }
        true
    }
}
