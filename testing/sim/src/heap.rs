//! A heap that runs out: the allocator's metadata is memory, too.
//!
//! A test program makes [`FailingAlloc`] its global allocator, and lets a piece of code run with
//! some of its requests [`Due`] to fail. Only the calling thread is short of memory, and what the
//! simulator itself needs is never refused.
//!
//! ```
//! use vmalloc_sim::Due;
//! use vmalloc_sim::heap::{self, FailingAlloc};
//!
//! #[global_allocator]
//! static HEAP: FailingAlloc = FailingAlloc;
//!
//! let mut list: Vec<u64> = Vec::new();
//! let (result, demand) = heap::short_of(Due::Nth(1), || list.try_reserve(100));
//! assert!(result.is_err() && demand.refused == 1);
//! assert!(list.try_reserve(100).is_ok());
//! ```

use crate::plan::Due;
use lock_api::RawMutex;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Requests for memory, under a shortage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Demand {
    /// Made.
    pub asked: u64,
    /// Refused.
    pub refused: u64,
    /// The bytes of the largest.
    pub largest: usize,
}

thread_local! {
    /// The requests that are to fail, of those that are counted.
    static DUE: Cell<Option<Due>> = const { Cell::new(None) };
    static DEMAND: Cell<Demand> = const { Cell::new(Demand { asked: 0, refused: 0, largest: 0 }) };
    /// True within a call that is counted.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
    /// How many exemptions are in force.
    static EXEMPT: Cell<u32> = const { Cell::new(0) };
    /// Locks of spaces that this thread holds.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
    /// Calls of the heap that this thread made meanwhile.
    static UNDER_LOCKS: Cell<u64> = const { Cell::new(0) };
}

/// Runs `act` with a shortage of memory in this thread; its result and what it asked for. Without a
/// [`FailingAlloc`] nothing is counted or refused. Whatever `act` does must cope: most code of the
/// standard library aborts.
pub fn short_of<R>(due: Due, act: impl FnOnce() -> R) -> (R, Demand) {
    let before = DEMAND.get();
    DEMAND.set(Demand { largest: 0, ..before });
    fail(due);
    let result = counted(act);
    heal();
    let Demand { asked, refused, largest } = DEMAND.get();
    (result, Demand { asked: asked - before.asked, refused: refused - before.refused, largest })
}

/// Makes requests fail from now on that are made in [`counted`] calls of this thread, together
/// counted from 1.
pub fn fail(due: Due) {
    DUE.set(Some(due.after(DEMAND.get().asked)));
}

/// Lets every request of a [`counted`] call succeed again.
pub fn heal() {
    DUE.set(None);
}

/// Returns how many requests of [`counted`] calls of this thread were refused so far.
pub fn refused() -> u64 {
    DEMAND.get().refused
}

/// Runs `act`, whose requests are those that [`fail`] counts.
pub fn counted<R>(act: impl FnOnce() -> R) -> R {
    /// Ends the count, be it in a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            IS_COUNTED.set(false);
        }
    }
    let _end = End;
    IS_COUNTED.set(true);
    act()
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

/// Returns how often this thread has called a [`FailingAlloc`] with a [lock](SpaceLock) of a space
/// held, and forgets it.
pub fn take_calls_under_locks() -> u64 {
    UNDER_LOCKS.take()
}

/// A lock of a space, which knows of the calls of the heap that are made while it is held.
#[derive(Debug)]
pub struct SpaceLock<L>(L);

// SAFETY: the lock below excludes.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex> RawMutex for SpaceLock<L> {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(L::INIT);

    type GuardMarker = L::GuardMarker;

    fn lock(&self) {
        self.0.lock();
        LOCKS.set(LOCKS.get() + 1);
    }

    fn try_lock(&self) -> bool {
        let is_ours = self.0.try_lock();
        LOCKS.set(LOCKS.get() + u32::from(is_ours));
        is_ours
    }

    unsafe fn unlock(&self) {
        LOCKS.set(LOCKS.get().saturating_sub(1));
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// Notes a call of the heap.
fn note() {
    if LOCKS.get() != 0 && EXEMPT.get() == 0 {
        UNDER_LOCKS.set(UNDER_LOCKS.get() + 1);
    }
}

/// Returns whether the request for so many bytes, which is being made, is one to refuse.
fn refuses(bytes: usize) -> bool {
    note();
    if !IS_COUNTED.get() || EXEMPT.get() > 0 {
        return false;
    }
    let mut demand = DEMAND.get();
    demand.asked += 1;
    demand.largest = demand.largest.max(bytes);
    let refused = DUE.get().is_some_and(|due| due.has(demand.asked));
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
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on; every block is the system's.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise is passed on; every block is the system's.
        unsafe { System.dealloc(block, layout) }
    }
}
