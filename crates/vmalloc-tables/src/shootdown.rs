//! Shootdown: making every CPU forget translations, and knowing that it did.
//!
//! ```text
//!   CPU 0                                         CPU 1            CPU 2
//!   issue     ranges and their number written
//!   dispatch  forgets its own
//!             an interrupt to each  ────────────► acknowledge ┐    acknowledge ┐
//!                                                  forgets     │     forgets    │
//!   wait      until all have seen the number ◄──── number ────┘ ◄── number ────┘
//! ```
//!
//! - **D1** A request is written by the holder of `turn` alone, before its number is, and stays
//!   until every CPU has acknowledged it or one was given up on.
//! - **D2** `seen[c]` is at most the number of requests, and CPU c holds no translation that a
//!   request up to `seen[c]` named and that was cached before.
//! - **D3** When a CPU is given up on, the next number is left out: a CPU that has not seen both
//!   forgets everything.
//! - **D4** A CPU acknowledges for itself alone: interrupts are off from the question which CPU
//!   this is until its number is written. A thread that waits has interrupts on, and may move to
//!   another CPU at any other moment.
//!
//! On return from [`Shootdown::run`] with `Ok`, no CPU that is online holds a translation of the
//! ranges. With an error, one may.

use crate::lock::OpenLock;
use crate::machine::{Machine, pinned};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use lock_api::Mutex;
use vmalloc::PageRange;

/// Ranges of a request; with more, everything is forgotten.
const MOST_RANGES: usize = 16;
/// Pages that are forgotten one by one. Forgetting everything costs refills instead: the field
/// draws the line at 33.
const MOST_PAGES: u64 = 33;
/// The number of ranges that stands for everything.
const ALL: usize = MOST_RANGES + 1;

/// Requests of all CPUs, one at a time.
pub(crate) struct Shootdown {
    turn: Mutex<OpenLock, ()>,
    number: AtomicU64,
    count: AtomicUsize,
    /// [`MOST_RANGES`] ranges.
    ranges: Box<[[AtomicU64; 2]]>,
    seen: Box<[AtomicU64]>,
}

/// A CPU that is online and did not acknowledge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    pub(crate) cpu: usize,
}

/// Makes a list in place: a platform is moved into its space, and so is small.
fn list<T>(len: usize, make: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).ok()?;
    list.resize_with(len, make);
    Some(list.into_boxed_slice())
}

impl Shootdown {
    /// Returns one for so many CPUs; `None` when memory is short.
    pub(crate) fn new(cpus: usize) -> Option<Self> {
        let word = || AtomicU64::new(0);
        Some(Self {
            turn: Mutex::new(()),
            number: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            ranges: list(MOST_RANGES, || [word(), word()])?,
            seen: list(cpus, word)?,
        })
    }

    /// Makes every CPU forget `ranges`.
    pub(crate) fn run<M: Machine>(&self, machine: &M, ranges: &[PageRange]) -> Result<(), Lost> {
        let _turn = self.turn.lock();
        let number = self.issue(ranges);
        self.dispatch(machine);
        self.wait(machine, number)
    }

    fn issue(&self, ranges: &[PageRange]) -> u64 {
        let pages: u64 = ranges.iter().map(PageRange::len).sum();
        let few = ranges.len() <= MOST_RANGES && pages <= MOST_PAGES;
        // Relaxed: published by the number below.
        self.count.store(if few { ranges.len() } else { ALL }, Ordering::Relaxed);
        for (slot, range) in self.ranges.iter().zip(ranges).take(if few { MOST_RANGES } else { 0 }) {
            slot[0].store(range.start(), Ordering::Relaxed);
            slot[1].store(range.end(), Ordering::Relaxed);
        }
        // SeqCst: pairs with the load in `acknowledge`, and keeps the entries that were cleared
        // before it in front of the interrupts.
        self.number.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Forgets on this CPU, and interrupts all others. The thread may be on one of them by then.
    fn dispatch<M: Machine>(&self, machine: &M) {
        let here = self.acknowledge(machine);
        let others = (0..machine.cpus()).filter(|&cpu| cpu != here && machine.is_online(cpu));
        others.for_each(|cpu| machine.interrupt(cpu));
    }

    fn wait<M: Machine>(&self, machine: &M, number: u64) -> Result<(), Lost> {
        for cpu in 0..machine.cpus() {
            let mut looks = 0;
            // Acquire: pairs with the Release in `acknowledge`.
            while machine.is_online(cpu) && self.seen[cpu].load(Ordering::Acquire) < number {
                // This thread may have moved to that CPU since.
                self.acknowledge(machine);
                looks += 1;
                if looks > machine.blocking() {
                    // A number is left out: a CPU that missed this one has missed two (D3).
                    self.number.fetch_add(1, Ordering::SeqCst);
                    return Err(Lost { cpu });
                }
                core::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Forgets, on this CPU, the ranges that were asked for since the last time. Returns which CPU
    /// that was.
    pub(crate) fn acknowledge<M: Machine>(&self, machine: &M) -> usize {
        pinned::<M, _>(|| {
            let cpu = machine.cpu();
            self.acknowledge_pinned(machine, cpu);
            cpu
        })
    }

    /// Acknowledges on `cpu`, which runs this with interrupts off.
    fn acknowledge_pinned<M: Machine>(&self, machine: &M, cpu: usize) {
        // SeqCst: pairs with the addition in `issue`.
        let number = self.number.load(Ordering::SeqCst);
        let seen = self.seen[cpu].load(Ordering::Relaxed);
        if seen >= number {
            return;
        }
        let count = self.count.load(Ordering::Relaxed);
        if seen + 1 < number || count == ALL {
            machine.forget_all();
        } else {
            self.forget(machine, count);
        }
        // Release: pairs with the Acquire in `wait`. Only this CPU writes it, and no handler of it
        // has come in between (D4).
        self.seen[cpu].store(number, Ordering::Release);
    }

    /// Forgets everything, on a CPU that is online from now on.
    pub(crate) fn join<M: Machine>(&self, machine: &M) {
        pinned::<M, _>(|| {
            let number = self.number.load(Ordering::SeqCst);
            machine.forget_all();
            self.seen[machine.cpu()].store(number, Ordering::Release);
        });
    }

    fn forget<M: Machine>(&self, machine: &M, count: usize) {
        for slot in self.ranges.iter().take(count) {
            let [start, end] = [0, 1].map(|edge| slot[edge].load(Ordering::Relaxed));
            // Those of a request that replaces another, read by a CPU that was given up on, may not
            // belong together.
            let end = end.min(start.saturating_add(MOST_PAGES));
            PageRange::new(start, end).iter().for_each(|range| machine.forget(core::slice::from_ref(range)));
        }
    }
}
