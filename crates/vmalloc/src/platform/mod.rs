//! The platform: what the allocator needs from the machine below it.
//!
//! Everything else in this crate is portable. A platform is written once per machine (Linux user
//! space, bare metal, a simulator). It lends the allocator one span of addresses, the means to put
//! pages behind them, and two locks.
//!
//! | trait | power | needed by |
//! |---|---|---|
//! | [`Platform`] | maps, unmaps and flushes memory of its own | every [`Space`](crate::Space) |
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

mod discard;
mod error;
mod frame_powers;
mod geometry;

pub use discard::Discard;
pub use error::{PlatformError, PlatformFault};
pub use frame_powers::{Frame, FrameRun, FrameSupply, MapFrames, Origin};
pub use geometry::{Geometry, MemoryCost};

use crate::PageRange;
use core::fmt;
use core::ptr::NonNull;

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

/// The part of the memory that [`Platform::evict_memory`] gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Evict {
    /// A quarter: memory decays.
    Quarter,
    /// All of it.
    All,
}

/// The machine below the allocator.
///
/// The allocator calls no method while it holds a lock that allocations and frees take, so an
/// implementation may take its own locks freely. `unmap`, `flush` and `evict_memory` run under a
/// [`PurgeLock`](Platform::PurgeLock), which only purges take; `unmap_now` runs under no lock. A
/// space of more than 8 nodes has several such locks: other threads may be in `unmap` and `flush`
/// with other ranges. An implementation must not call back into the space that calls it.
///
/// # Safety
/// The allocator hands out addresses as memory on the strength of these promises:
/// - The span of the [`geometry`](Self::geometry) belongs to the space that is made on this
///   platform, alone, until the platform is dropped.
/// - After `map(range)` has returned `Ok`, every byte of `range` can be read and written until
///   `unmap` is called for it. Nothing else is reachable through it. Pages that were not mapped
///   before read as zero, if [`Geometry::maps_zeroed`] says so.
/// - After `unmap` and `flush` have both returned `Ok` for a range, or `unmap_now` has, no CPU
///   reaches its former pages through it any more.
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
        let _ = lock;
        true
    }

    /// Returns the constants of this machine. The allocator asks once, when a space is made.
    fn geometry(&self) -> Geometry;

    /// Returns the CPU that runs this, below [`Geometry::cpus`]: a hint that picks a shard and
    /// protects nothing.
    fn cpu(&self) -> usize;

    /// Lends `bytes` zeroed bytes for records, at a multiple of 64, of which only what is touched
    /// takes memory. Nothing else uses them for as long as the platform lives. A space asks once,
    /// when it is made; with them it needs a step less to find an area. The default is for
    /// platforms where memory is there before it is touched.
    fn lend_records(&self, bytes: usize) -> Option<NonNull<u8>> {
        let _ = bytes;
        None
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

    /// Unmaps `range` and flushes it before it returns: for a free after which a stale access has
    /// to trap at once. The range holds no guard page, but may hold pages that were never mapped.
    /// The tag is the area's, for a platform that reports traps. Many threads may be in this call,
    /// and another in each of the other calls. The default is for platforms that can't: a purge
    /// does it.
    ///
    /// # Safety
    /// The caller owns all of `range` exclusively, and nothing uses its memory.
    ///
    /// # Errors
    /// Any part of `range` may have been unmapped then. The allocator hands it to
    /// [`unmap`](Self::unmap) and [`flush`](Self::flush).
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        let _ = (range, tag);
        Err(PlatformError { call: "unmap_now", fault: PlatformFault::Unsupported, code: 0 })
    }

    /// Gives memory back to the machine that the platform has kept of unmapped ranges, to put it
    /// behind others. Each purge that evicts pooled areas calls it, and so does a purge for an
    /// allocation in need. Returns whether the platform still keeps some. The default is for
    /// platforms that keep nothing.
    fn evict_memory(&self, part: Evict) -> bool {
        let _ = part;
        false
    }

    /// Notes that the program has changed what the machine does with the pages of `range`, behind
    /// the platform's back: locked them, protected them, or advised the system about them. The next
    /// [`unmap`](Self::unmap) then replaces them by pages as new. A platform whose pages have no
    /// such attributes does nothing.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, it is mapped, and nothing uses its memory any more.
    ///
    /// # Errors
    /// When there is no memory to remember it; nothing is changed.
    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        let _ = range;
        Ok(())
    }

    /// Returns how many pages of `range`, which is mapped in part or as a whole, have memory behind
    /// them, or an upper bound. The allocator asks for large areas that are freed, since a program
    /// often uses little of them. The default says: all of it.
    ///
    /// # Safety
    /// The caller owns `range` exclusively.
    unsafe fn resident(&self, range: PageRange) -> u64 {
        range.len()
    }

    /// Puts huge pages behind the whole, aligned huge parts of `range`, which is mapped, where that
    /// is possible. Its content stays. The allocator calls it where cached memory serves a request
    /// for huge pages. The default does nothing.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and all of it is mapped.
    unsafe fn make_huge(&self, range: PageRange) {
        let _ = range;
    }

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
        let _ = reason;
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

/// A platform whose mapped pages are ordinary memory of this program, at their own addresses.
///
/// The simulator is not one: its addresses lead nowhere.
///
/// # Safety
/// For a mapped page, `page << page_shift` is a valid, readable, writable address of this program
/// with exposed provenance, and no mapped page is at address zero.
pub unsafe trait DirectMemory: Platform {}

/// A platform that may be able to move pages to another address.
///
/// # Safety
/// After [`relocate`](Self::relocate) has returned `Ok`, the new range shows what the old one held,
/// and the old one leads nowhere on this CPU.
pub unsafe trait Relocate: Platform {
    /// Moves the pages behind `from` to `to`, of the same length, without copying them. On return
    /// `from` is as after [`unmap`](Platform::unmap): it faults on this CPU, and has to be unmapped
    /// and flushed before it is handed out.
    ///
    /// # Safety
    /// The caller owns both ranges exclusively; `from` is mapped by [`map`](Platform::map), `to` is
    /// not mapped.
    ///
    /// # Errors
    /// Both ranges are as before. The default answers
    /// [`Unsupported`](crate::PlatformFault::Unsupported), which tells the caller to copy.
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        let _ = (from, to);
        Err(PlatformError { call: "relocate", fault: PlatformFault::Unsupported, code: 0 })
    }
}

/// A platform that can change the protection of mapped pages.
///
/// # Safety
/// After `Ok` no CPU can do with the pages what the protection does not allow.
pub unsafe trait Protect: Platform {
    /// Lets every CPU do with the pages of `range`, which are mapped, what `protection` allows, and
    /// nothing else.
    ///
    /// # Safety
    /// The caller owns `range` exclusively.
    ///
    /// # Errors
    /// Each page has the old protection or the new one.
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError>;
}

/// A platform that can read addresses which may lead nowhere.
pub trait ReadNofault: Platform {
    /// Copies bytes from `addr` on into `to`, up to the first that can't be read. Returns how many.
    /// Never faults, even if pages are unmapped meanwhile.
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize;
}

/// A platform that can tell which physical page stands behind an address.
pub trait Translate: Platform {
    /// Returns the number of the physical page behind `page`, which is inside a busy area; `None`
    /// when no page is there yet, or when the machine does not tell this program.
    fn physical_page(&self, page: u64) -> Option<u64>;
}
