//! A machine of 1 to 128 virtual CPUs in virtual time, on one thread of the host.
//!
//! It runs the *real* code of an allocator, and says how long that takes on CPUs that we do not
//! have. The compiler puts a call to this crate before every basic block, load and store of the
//! code that is looked at (`-Cpasses=sancov-module`, see `rustc.sh` beside this crate).
//!
//! ```text
//!   thread 0 ──► CPU 0   t=120 ████████ block, load … ──┐ the CPU with the least time runs
//!   thread 1 ──► CPU 1   t=190 ██████████████           │
//!   thread 2 ──► CPU 2   t=95  ████ waits for a lock    ▼
//!                              └── lines: which CPUs have each of them
//! ```
//!
//! * `V1` Each thread is a coroutine, and belongs to one CPU. A CPU's clock counts its blocks, the
//!   lines that come to it, its atomic operations and its waits.
//! * `V2` Before a thread does what others can see (a lock, an operation that reads and writes at
//!   once, a line that another CPU has) all CPUs have come to that time. In between it may be ahead
//!   by 1 µs.
//! * `V3` A spin lock goes to those that wait in the order in which they came; who waits keeps its
//!   CPU. A sleeping lock does the same, but who waits leaves its CPU.
//! * `V4` A thread that holds or waits for a spin lock keeps its CPU. Otherwise it gives way when
//!   its slice is over and another is ready, or when a sleeper wakes up.
//! * `V5` The same threads give the same report, to the digit: nothing depends on the host's clock,
//!   heap, addresses or random numbers.
//!
//! What it leaves out: caches that are full, distances between CPUs, misses that overlap,
//! interrupts of the CPUs that a flush asks, the time of `memcpy` and of the standard library's own
//! code. Loads and stores of stacks and statics take no line.
//!
//! | module | what it has |
//! |---|---|
//! | [`Costs`] | the constants, each with its source |
//! | `now`, `hooks` | what the short path of a hook needs; what instrumented code calls |
//! | `cpus`, `locks`, `lines` | the scheduler, locks in virtual time, cache lines |
//! | `memory` | a heap at a fixed address, whose lines are those that are modelled |
//! | `sites` | the places in the source that locked, or missed a line |

mod costs;
mod cpus;
mod hooks;
mod lines;
mod locks;
mod memory;
mod now;
mod report;
mod sites;

pub use costs::{Costs, Picos};
pub use hooks::work;
pub use lines::MAX_CPUS;
pub use locks::{Kind, is_waited_for, lock, try_lock, unlock};
pub use memory::Allocator;
pub use now::quietly;
pub use report::{LineStats, LockStats, Report};

use cpus::State;
use memory::Memory;
use now::now;

/// The work of a thread.
pub type Work<'a> = Box<dyn FnOnce() + 'a>;

/// A machine. A process has one at a time; what is allocated in it may not outlive it.
#[derive(Debug)]
pub struct Machine {
    _memory: Memory,
    costs: Costs,
}

impl Machine {
    /// Builds a machine without threads. Waits until there is no other.
    #[must_use]
    pub fn new(costs: Costs) -> Self {
        Self { _memory: Memory::map(), costs }
    }

    /// Builds something in the machine's memory, in no time: what threads will use.
    pub fn set_up<T>(&self, build: impl FnOnce() -> T) -> T {
        let before = now(|now| now.modelled.replace(true));
        let built = build();
        now(|now| now.modelled.set(before));
        built
    }

    /// Runs threads on so many CPUs, from one CPU to the next; `on_cpu` is told before code runs on
    /// a CPU.
    ///
    /// # Panics
    /// Unless there are 1 to [`MAX_CPUS`] CPUs, and where threads wait for each other for ever.
    pub fn run(&self, cpus: usize, on_cpu: fn(usize), threads: Vec<Work<'_>>) -> Report {
        assert!((1..=MAX_CPUS).contains(&cpus), "{cpus} CPUs");
        // SAFETY: each thread is run to its end before this returns. Where one never ends, it is
        // forgotten and never runs again.
        let threads = unsafe { std::mem::transmute::<Vec<Work<'_>>, Vec<Work<'static>>>(threads) };
        State::new(self.costs, cpus, on_cpu).run(threads)
    }
}

#[cfg(test)]
mod tests;
