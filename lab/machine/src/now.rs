//! The thread that runs now, as the hooks see it: all that the short path of a hook needs.
//!
//! One thread of the host runs a machine, coroutines and all, so what is set here is thread-local.

use crate::{Costs, Picos};
use std::cell::Cell;

/// How far a CPU may be ahead of the others while it meets none of them.
pub(crate) const AHEAD: Picos = 1_000_000;

/// The thread that runs now.
pub(crate) struct Now {
    /// True where hooks count: code of a design runs on a virtual CPU.
    pub(crate) on: Cell<bool>,
    /// True where they did before `__machine_off`.
    pub(crate) off: Cell<bool>,
    /// True where the heap is that of the machine: also while a design is set up.
    pub(crate) modelled: Cell<bool>,
    /// The time on this CPU.
    pub(crate) clock: Cell<Picos>,
    /// When another CPU acts next.
    pub(crate) horizon: Cell<Picos>,
    /// When the scheduler has to be asked, if nothing happens before.
    pub(crate) limit: Cell<Picos>,
    pub(crate) costs: Cell<Costs>,
    /// Blocks of all CPUs.
    pub(crate) blocks: Cell<u64>,
    /// The end of the highest area that was used.
    pub(crate) highest: Cell<u64>,
    pub(crate) cpu: Cell<usize>,
}

thread_local! {
    static NOW: Now = const {
        Now {
            on: Cell::new(false),
            off: Cell::new(false),
            modelled: Cell::new(false),
            clock: Cell::new(0),
            horizon: Cell::new(0),
            limit: Cell::new(0),
            costs: Cell::new(Costs::BARE),
            blocks: Cell::new(0),
            highest: Cell::new(0),
            cpu: Cell::new(0),
        }
    };
}

impl Now {
    /// Lets time pass on this CPU.
    #[inline]
    pub(crate) fn pass(&self, time: Picos) {
        self.clock.set(self.clock.get() + time);
    }
}

/// Looks at the thread that runs.
#[inline]
pub(crate) fn now<T>(look: impl FnOnce(&Now) -> T) -> T {
    NOW.with(look)
}

/// Runs something that takes no time, is not interrupted, and has the heap of the host.
#[inline]
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let (on, modelled) = now(|now| (now.on.replace(false), now.modelled.replace(false)));
    let done = run();
    now(|now| {
        now.on.set(on);
        now.modelled.set(modelled);
    });
    done
}
