//! A heap that runs out: the allocator's metadata is memory, too.
//!
//! A test program makes [`FailingAlloc`] its global allocator, and lets a piece of code run with a
//! [`Shortage`]. Only the calling thread is short of memory, and what the simulator itself needs is
//! never refused.
//!
//! ```
//! use vmalloc_sim::heap::{self, FailingAlloc, Shortage};
//!
//! #[global_allocator]
//! static HEAP: FailingAlloc = FailingAlloc;
//!
//! let mut list: Vec<u64> = Vec::new();
//! let (result, demand) = heap::short_of(Shortage::Nth(1), || list.try_reserve(100));
//! assert!(result.is_err() && demand.refused == 1);
//! assert!(list.try_reserve(100).is_ok());
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The requests for memory that are refused, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// This one alone.
    Nth(u64),
    /// This one and all that follow.
    From(u64),
}

/// Requests for memory, under a shortage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Demand {
    /// Made.
    pub asked: u64,
    /// Refused.
    pub refused: u64,
}

thread_local! {
    static SHORTAGE: Cell<Option<Shortage>> = const { Cell::new(None) };
    static DEMAND: Cell<Demand> = const { Cell::new(Demand { asked: 0, refused: 0 }) };
    /// The requests of counted calls that are to fail, and how many have.
    static DUE: Cell<Option<Shortage>> = const { Cell::new(None) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    /// How many exemptions are in force.
    static EXEMPT: Cell<u32> = const { Cell::new(0) };
}

/// Runs `act` with a shortage of memory in this thread; its result and what it asked for. Without a
/// [`FailingAlloc`] nothing is counted or refused. Whatever `act` does must cope: most code of the
/// standard library aborts.
pub fn short_of<R>(shortage: Shortage, act: impl FnOnce() -> R) -> (R, Demand) {
    /// Ends the shortage, be it in a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            SHORTAGE.set(None);
        }
    }
    DEMAND.set(Demand::default());
    SHORTAGE.set(Some(shortage));
    let end = End;
    let result = act();
    drop(end);
    (result, DEMAND.get())
}

/// Makes requests fail from now on that are made in [`counted`] calls of this thread, together
/// counted from 1.
pub fn fail(shortage: Shortage) {
    DUE.set(Some(shortage));
}

/// Lets every request of a [`counted`] call succeed again.
pub fn heal() {
    DUE.set(None);
}

/// Returns how many requests of [`counted`] calls of this thread were refused so far.
pub fn refused() -> u64 {
    REFUSED.get()
}

/// Runs `act`, whose requests are those that [`fail`] counts.
pub fn counted<R>(act: impl FnOnce() -> R) -> R {
    let Some(shortage) = DUE.get() else { return act() };
    let (result, demand) = short_of(shortage, act);
    DUE.set(match shortage {
        Shortage::Nth(nth) if nth <= demand.asked => None,
        Shortage::Nth(nth) => Some(Shortage::Nth(nth - demand.asked)),
        Shortage::From(first) => Some(Shortage::From(first.saturating_sub(demand.asked).max(1))),
    });
    REFUSED.set(REFUSED.get() + demand.refused);
    result
}

/// While it lives, this thread is refused nothing, and what it asks for is not counted.
#[derive(Debug)]
pub struct Exempt(());

impl Exempt {
    /// Begins an exemption. They nest.
    #[must_use]
    pub fn begin() -> Self {
        EXEMPT.set(EXEMPT.get() + 1);
        Self(())
    }
}

impl Drop for Exempt {
    fn drop(&mut self) {
        EXEMPT.set(EXEMPT.get() - 1);
    }
}

/// Returns whether the request that is being made is one to refuse.
fn refuses() -> bool {
    let Some(shortage) = SHORTAGE.get() else { return false };
    if EXEMPT.get() > 0 {
        return false;
    }
    let mut demand = DEMAND.get();
    demand.asked += 1;
    let refused = match shortage {
        Shortage::Nth(nth) => demand.asked == nth,
        Shortage::From(first) => demand.asked >= first,
    };
    demand.refused += u64::from(refused);
    DEMAND.set(demand);
    refused
}

/// The system's heap, short of memory where a test wants it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailingAlloc;

// SAFETY: every call is the system allocator's, or a refusal, which is legal at any time. The
// thread's cells are constants at first and have no destructor, so reading them neither allocates
// nor fails, however late.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for FailingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on; every block is the system's.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on; every block is the system's.
        unsafe { System.dealloc(block, layout) }
    }
}
