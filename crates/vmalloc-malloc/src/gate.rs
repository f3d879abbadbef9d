//! A gate: threads pass it to go inside, and a thread that forks closes it and waits until no
//! thread is inside.
//!
//! ```text
//!   a thread                           a thread that forks
//!   enter: count itself inside         close: no thread goes in any more
//!          closed? count itself out    is_empty: those inside have come out
//!   leave: count itself out            (takes the locks, forks, releases them)
//!                                      open
//! ```
//!
//! Each side writes first and reads then, so that one of them sees the other. Without the gate, a
//! fork can end in a deadlock: the forking thread has the locks of the heap and waits for the list
//! of open files, another thread has the list and waits for a file, and a third has the file and
//! waits for the heap (getline(3) calls realloc).

use crossbeam_utils::CachePadded;
#[cfg(loom)]
use loom::sync::atomic::AtomicUsize;
#[cfg(not(loom))]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

/// Counters of threads inside: so many that two threads rarely write the same line.
const COUNTERS: usize = if cfg!(loom) { 2 } else { 1 << COUNTER_BITS };
const COUNTER_BITS: u32 = 4;

/// A counter counts threads inside in its lower half, which may be less than 0, and in its upper
/// half those that have ever entered.
const HALF: u32 = usize::BITS / 2;
const ENTERED: usize = 1 << HALF;

/// The gate. See the module.
#[derive(Debug)]
#[doc(hidden)]
pub struct Gate {
    /// How many threads keep it closed.
    closed: CachePadded<AtomicUsize>,
    inside: [CachePadded<AtomicUsize>; COUNTERS],
}

/// A thread that has passed the gate, until this is dropped.
#[derive(Debug)]
#[doc(hidden)]
pub struct Inside<'a> {
    counter: &'a AtomicUsize,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the load in `is_empty`: all that this thread did inside.
        self.counter.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    /// Returns an open gate with no thread inside.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            closed: CachePadded::new(AtomicUsize::new(0)),
            inside: [const { CachePadded::new(AtomicUsize::new(0)) }; COUNTERS],
        }
    }

    /// Returns an open gate with no thread inside.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        let counter = || CachePadded::new(AtomicUsize::new(0));
        Self { closed: counter(), inside: std::array::from_fn(|_| counter()) }
    }

    /// Lets the calling thread in, unless the gate is closed. `thread` is any number that differs
    /// between threads. Two atomic additions on a line that is mostly this thread's own.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self, thread: usize) -> Option<Inside<'_>> {
        let inside = Inside { counter: &self.inside[index(thread)] };
        // SeqCst, both: with those in `close` and `is_empty`, this thread sees the gate closed, or
        // the thread that closed it sees this one inside.
        inside.counter.fetch_add(ENTERED + 1, Ordering::SeqCst);
        order_for_loom();
        (self.closed.load(Ordering::SeqCst) == 0).then_some(inside)
    }

    /// Closes the gate, once more. Threads that are inside stay there.
    pub fn close(&self) {
        // SeqCst: see `enter`.
        self.closed.fetch_add(1, Ordering::SeqCst);
        order_for_loom();
    }

    /// Returns true if no thread is inside: with the gate closed, none will be. A thread that finds
    /// the gate closed is inside for a moment, too.
    ///
    /// In the child of a fork that was made inside, by the handler of a signal, a counter is less
    /// than 0 once the interrupted call has left: [`open_in_child`](Self::open_in_child) does not
    /// know of it. Then as many threads inside are overlooked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // SeqCst: see `enter`. It acquires what those who left did inside.
        self.inside.iter().all(|counter| inside(counter.load(Ordering::SeqCst)) <= 0)
    }

    /// Returns how often threads have entered, those that found the gate closed as well. Each
    /// counter begins again after 2^32.
    #[must_use]
    pub fn calls(&self) -> usize {
        let entered = |counter: usize| counter.wrapping_sub(inside(counter) as usize) >> HALF;
        // Relaxed: a number and nothing else.
        self.inside.iter().map(|counter| entered(counter.load(Ordering::Relaxed))).sum()
    }

    /// Takes back one [`close`](Self::close).
    pub fn open(&self) {
        // Release: pairs with the load in `enter`: what the closing thread did.
        self.closed.fetch_sub(1, Ordering::Release);
    }

    /// Opens the gate in the child of a fork, where no other thread is left, whether it was inside
    /// or kept the gate closed.
    pub fn open_in_child(&self) {
        // Relaxed: a child has one thread.
        self.inside.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.closed.store(0, Ordering::Relaxed);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the lower half of a counter.
fn inside(counter: usize) -> isize {
    (counter << HALF) as isize >> HALF
}

/// Orders a write of this thread before its next read. SeqCst alone does that, but loom takes
/// SeqCst for AcqRel, except in fences.
#[inline(always)]
fn order_for_loom() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Spreads numbers of threads, which often are addresses of pages, over the counters.
#[inline(always)]
fn index(thread: usize) -> usize {
    if cfg!(loom) {
        return thread % COUNTERS;
    }
    // The golden ratio as a fraction of 2^64: consecutive numbers, times this, lie far apart.
    ((thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - COUNTER_BITS)) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_tells_who_is_inside() {
        let gate = Gate::new();
        let inside = gate.enter(7).unwrap();
        assert!(!gate.is_empty());
        gate.close();
        gate.close();
        assert!(gate.enter(7).is_none() && gate.enter(8).is_none());
        assert!(!gate.is_empty(), "the first is still inside");
        drop(inside);
        assert!(gate.is_empty(), "who was refused is not inside");
        gate.open();
        assert!(gate.enter(7).is_none(), "closed twice, opened once");
        gate.open();
        assert!(gate.enter(7).is_some());
    }

    #[test]
    fn a_child_begins_with_an_open_and_empty_gate() {
        let gate = Gate::new();
        let lost = gate.enter(1).unwrap();
        gate.close();
        std::mem::forget(lost);
        gate.open_in_child();
        assert!(gate.is_empty());
        assert!(gate.enter(1).is_some());
    }

    #[test]
    fn a_call_that_a_fork_interrupted_leaves_the_gate_of_the_child_empty() {
        let gate = Gate::new();
        let interrupted = gate.enter(1).unwrap();
        gate.close();
        gate.open_in_child();
        drop(interrupted);
        assert!(gate.is_empty(), "the next fork waits for nobody");
        assert_eq!(gate.calls(), 0, "the child has made no call");
        assert!(gate.enter(2).is_some());
        assert_eq!(gate.calls(), 1);
    }

    #[test]
    fn threads_whose_numbers_are_addresses_of_stacks_use_different_counters() {
        let mut used: Vec<_> =
            (0..8).map(|nth| index(0x7f00_0000_0000_u64 as usize + nth * (8 << 20) + 0x6c0)).collect();
        used.sort_unstable();
        used.dedup();
        assert!(used.len() >= 6, "{used:?}");
    }
}

/// To run it:
///
/// ```text
/// RUSTFLAGS="--cfg loom" cargo test -p vmalloc-malloc --lib models --target-dir target/loom
/// ```
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// The heap: only threads inside may touch it while the gate is open, and the thread that
    /// closed the gate once no thread is inside. Loom reports two that touch it at once.
    #[test]
    fn nobody_is_inside_of_a_gate_that_is_closed_and_empty() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(), UnsafeCell::new(0)));
            let user = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    if let Some(_inside) = shared.0.enter(0) {
                        // SAFETY: this thread is inside, and alone there.
                        shared.1.with_mut(|heap| unsafe { *heap += 1 });
                    }
                })
            };
            shared.0.close();
            let was_empty = shared.0.is_empty();
            if was_empty {
                // SAFETY: the gate is closed, and no thread is inside.
                shared.1.with_mut(|heap| unsafe { *heap += 1 });
            }
            shared.0.open();
            user.join().unwrap();
            assert!(shared.0.is_empty());
        });
    }
}
