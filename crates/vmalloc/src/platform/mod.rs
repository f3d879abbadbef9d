//! The platform: what the allocator needs from the machine below it.
//!
//! Everything else in this crate is portable. A platform is written once per machine (Linux user
//! space, bare metal, a simulator). It lends the allocator one span of addresses, the means to put
//! pages behind them, and two locks.
//!
//! | trait | power | needed by |
//! |---|---|---|
//! | [`Platform`] | maps, unmaps and flushes memory of its own | every [`Space`](crate::Space) |
//! | [`Extras`] | unmaps and flushes in one call, keeps memory back, tells what is resident | none |
//! | [`DirectMemory`] | a mapped page is memory at its own address | [`Buffer`](crate::Buffer) |
//! | [`FrameSupply`] | hands out pages of memory by number | shared memory |
//! | [`MapFrames`] | puts given frames behind pages | mappings |
//! | [`Protect`] | changes the protection of mapped pages | executable memory |
//! | [`Relocate`] | moves pages to another address without copying | resizing |
//! | [`Discard`] | makes mapped pages read as zero again | resetting |
//! | [`ReadNofault`] | reads addresses that may not be mapped | crash dumps |
//! | [`Translate`] | tells the physical page behind an address | device drivers |
//!
//! # The life of a page of address space
//!
//! ```text
//!            map                    unmap                   flush
//!   free ──────────► mapped ──────────────────► unmapped ──────────► free again
//!                      │  ▲                        │
//!                      │  │ reuse, still mapped    │ NOT reusable: another CPU may still
//!                      ▼  │                        │ translate it. Its old pages are NOT
//!                    cached                        │ back in the supply.
//! ```
//!
//! *Unmapped*, *flushed* and *reusable* are three things. Only after [`Platform::flush`] has
//! returned for a range may its addresses be handed out again, and only then may the platform
//! recycle the pages behind them.

#![expect(unused_variables, reason = "a default method may need nothing of what it is given")]

mod error;
mod frame_powers;
mod geometry;
mod powers;

pub use error::{PlatformError, PlatformFault};
pub use frame_powers::{Frame, FrameRun, FrameSupply, MapFrames, Origin};
pub use geometry::{Geometry, MemoryCost};
pub use powers::{DirectMemory, Discard, Evict, Extras, Protect, ReadNofault, Relocate, Translate};

use crate::PageRange;
use core::fmt;

/// The access that the program has to the pages of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Protection {
    /// Read and write.
    #[default]
    ReadWrite,
    /// Read only.
    Read,
    /// Read and execute: never together with writing.
    ReadExecute,
}

/// Why the allocator asks for a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DrainReason {
    /// Lazy pages have passed the threshold: drain at once.
    Threshold,
    /// Something is cached where nothing was, and decays by age: drain after a while, and again
    /// for as long as [`Space::drain`](crate::Space::drain) says that something is left.
    Age,
}

/// The machine below the allocator.
///
/// The allocator calls no method while it holds a lock that allocations and frees take, so an
/// implementation may take its own locks freely. `unmap`, `flush` and [`evict_memory`](Extras::evict_memory)
/// run under a [`PurgeLock`](Platform::PurgeLock), which only purges take; `unmap_now` runs under no
/// lock. A space of more than 8 nodes has several such locks: other threads may be in `unmap` and `flush`
/// with other ranges. An implementation must not call back into the space that calls it.
///
/// # Safety
/// The allocator hands out addresses as memory on the strength of these promises:
/// - The span of the [`geometry`](Self::geometry) belongs to the space that is made on this
///   platform, alone, until the platform is dropped.
/// - After `map(range)` has returned `Ok`, every byte of `range` can be read and written until
///   `unmap` is called for it. Nothing else is reachable through it. Pages that were not mapped
///   before read as zero, if [`Geometry::maps_zeroed`] says so.
/// - After `unmap` and `flush` have both returned `Ok` for a range, no CPU reaches its former pages
///   through it any more.
/// - What [`extras`](Self::extras) returns works on the pages of this platform.
/// - The locks exclude, as `lock_api::RawMutex` asks.
pub unsafe trait Platform: Sync {
    /// The lock that protects the allocator's state. It is held for a bounded number of areas,
    /// never over a call of the platform. On bare metal it also keeps interrupts off.
    type RawLock: lock_api::RawMutex + Send + Sync + 'static;

    /// The lock that a purge holds from its beginning to its end, [`unmap`](Self::unmap) and
    /// [`flush`](Self::flush) included: one for each group of 8 nodes, and one for all. An
    /// allocation that runs out of addresses waits for them. On bare metal it leaves interrupts on,
    /// and a CPU that waits for it goes on answering other CPUs: a flush waits for all of them.
    type PurgeLock: lock_api::RawMutex;

    /// The context of one allocation for [`map`](Self::map) and [`map_huge`](Self::map_huge), which
    /// a caller tells by [`Raw::with`](crate::Raw::with): a kernel's allocation flags and memory
    /// node, for example. `()` where there is nothing to tell. Calls without one have the default,
    /// and so has what the space maps for itself, such as guard pages inside areas that it joins.
    type Context: Copy + Default + Send + Sync + 'static;

    /// [`Geometry::page_shift`], where it is known when the program is built: that saves a look at
    /// it in every call. [`Space::new`](crate::Space::new) refuses a geometry that differs.
    /// Default: not known.
    const PAGE_SHIFT: Option<u32> = None;

    /// Makes a lock ready where it stays: one of [`INIT`](lock_api::RawMutex::INIT), which no
    /// thread has taken. For locks that take more than a constant, such as a C mutex. A space makes
    /// each of its locks ready once, never moves it, and is not made where this returns false.
    /// Default: it is ready.
    fn init_purge_lock(&self, lock: &Self::PurgeLock) -> bool {
        true
    }

    /// Returns the constants of this machine. The allocator asks once, when a space is made.
    fn geometry(&self) -> Geometry;

    /// Returns the CPU that runs this, below [`Geometry::cpus`]: a hint that picks a shard and
    /// protects nothing.
    fn cpu(&self) -> usize;

    /// Returns what this machine can do besides: itself, where it implements [`Extras`]. Default:
    /// nothing.
    fn extras(&self) -> &dyn Extras {
        &()
    }

    /// Puts pages behind `range`, now or on first touch, in the way that `context` says. They read
    /// as zero where [`Geometry::maps_zeroed`] says so.
    ///
    /// The range is inside the span and not mapped. Pages next to it stay as they are: in
    /// particular the guard page behind it must go on faulting.
    ///
    /// # Safety
    /// The caller owns `range` exclusively.
    ///
    /// # Errors
    /// When pages, page tables or mappings run out. Nothing of `range` is mapped then: the platform
    /// undoes what it had begun.
    unsafe fn map(
        &self,
        range: PageRange,
        protection: Protection,
        context: Self::Context,
    ) -> Result<(), PlatformError>;

    /// Puts huge pages behind each whole, aligned huge page of `range` that the supply has one for,
    /// and base pages behind the rest.
    ///
    /// # Safety
    /// See [`map`](Self::map).
    ///
    /// # Errors
    /// See [`map`](Self::map). A missing huge page is no error.
    unsafe fn map_huge(
        &self,
        range: PageRange,
        protection: Protection,
        context: Self::Context,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller owns the range.
        unsafe { self.map(range, protection, context) }
    }

    /// Takes the translations of `ranges` away, without waiting for other CPUs to notice.
    ///
    /// Ranges are disjoint and ascending, and neighbours are joined (unless memory for that was
    /// short, or the platform has refused some of them). They hold guard pages, and may hold pages
    /// that were never mapped. On return this CPU faults on them. Others may not yet, and the pages
    /// behind them may not be reused yet. A platform may flush here already.
    ///
    /// # Safety
    /// The caller owns all of `ranges` exclusively until [`flush`](Self::flush) has returned `Ok`
    /// for them, and nothing uses their memory.
    ///
    /// # Errors
    /// Any part of `ranges` may have been unmapped then. The allocator hands the same pages in
    /// again, at once and later, alone or with others, until it knows which ranges are refused. So
    /// unmapping twice must do no harm.
    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Waits until no CPU holds a translation for `ranges`, which have been unmapped, and recycles
    /// the pages that were behind them. A purge makes one such call.
    ///
    /// # Safety
    /// `unmap` has returned `Ok` for `ranges`, and they were not handed out since.
    ///
    /// # Errors
    /// Some CPU may still translate some of `ranges`. They stay lazy, and the allocator unmaps and
    /// flushes them again, as for [`unmap`](Self::unmap).
    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Fills the pages of `range`, which are all mapped, with zeros. The allocator calls it for
    /// requests of zeros where an area kept its pages, or the platform does not
    /// [zero](Geometry::maps_zeroed) new ones.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and it is mapped.
    unsafe fn zero(&self, range: PageRange);

    /// Asks for a call of [`Space::drain`](crate::Space::drain) from a context that may wait: a
    /// thread, a kernel's work queue. Returns whether that call will come.
    ///
    /// Frees call it again and again until the drain has run: many calls may lead to one. It may
    /// run in any context that frees, with locks of the caller's held and inside the program's
    /// heap, so it must not wait or allocate. It must not call the space, although no lock of the
    /// space is held: a free comes back at once.
    ///
    /// After `false` the freeing caller purges by itself when lazy pages pass the threshold. It
    /// also does when frees outrun the drain, at twice the threshold.
    ///
    /// The default is for platforms without such a context.
    fn drain_later(&self, reason: DrainReason) -> bool {
        false
    }

    /// Wakes the context that [`drain_later`](Self::drain_later) uses. Returns whether a call of
    /// [`Space::drain`](crate::Space::drain) will come.
    ///
    /// [`Raw::free_atomic`](crate::Raw::free_atomic) calls it: in a signal handler that has
    /// interrupted anything, in an interrupt, with any lock of the program or kernel held. So it
    /// creates nothing, takes no memory, no lock, and waits for nothing. Where the drain would need
    /// something to be created first it does nothing: the next call of the space that may create
    /// things asks by `drain_later`.
    ///
    /// The default is for platforms that can wake nothing from there.
    fn wake_drain(&self) -> bool {
        false
    }

    /// Returns a random number, for randomized placement and hash seeds. It need not be fast.
    fn entropy(&self) -> u64;

    /// Stops the program: the allocator's state is damaged, and going on would hand out memory
    /// twice.
    fn fatal(&self, damage: &dyn fmt::Display) -> !;
}
