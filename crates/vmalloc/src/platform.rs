//! The platform: what the allocator needs from the machine below it.
//!
//! Everything else in this crate is portable. A platform is written once per machine (Linux user space,
//! bare metal, a simulator) and lends the allocator one span of addresses, the means to put pages behind
//! them, and a lock.
//!
//! # The life of a page of address space
//!
//! ```text
//!            map                    unmap                   flush
//!   free ──────────► mapped ──────────────────► unmapped ──────────► free again
//!                      │  ▲                        │
//!                      │  │ reuse, still mapped    │ NOT reusable: another CPU may still
//!                      ▼  │ (retention)            │ translate it. Its old pages are NOT
//!                    retained                      │ back in the supply.
//! ```
//!
//! *Unmapped*, *flushed* and *reusable* are three things. Only after [`Platform::flush`] has returned for a
//! range may its addresses be handed out again, and only then may the platform recycle the pages behind them.

use crate::addr::PageRange;
use crate::error::PlatformError;
use core::fmt;

/// What may be done with the pages of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Protection {
    /// Read and write.
    #[default]
    ReadWrite,
}

/// Why a drain is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Much is lazy: at once.
    Soon,
    /// Something is kept where nothing was, and has to go by its age: after a while, and then again as long as
    /// [`Space::drain`](crate::Space::drain) says that something is left.
    ByAge,
}

/// The machine below the allocator.
///
/// No method is called with the lock held that allocations and frees take, so an implementation may take its
/// own locks freely. `unmap` and `flush` run under a lock that only purges take. An implementation must not
/// call back into the space that calls it.
///
/// # Safety
/// The allocator hands out addresses as memory on the strength of these promises:
/// - [`span`](Self::span) is constant and belongs to the allocator alone.
/// - After `map(range)` has returned `Ok`, every byte of `range` can be read and written until `unmap` is
///   called for it, and nothing else is reachable through it. Pages that were not mapped before read as zero.
/// - After `unmap` and `flush` have both returned `Ok` for a range, no CPU reaches its former pages through
///   it any more.
/// - The lock excludes, as `lock_api::RawMutex` asks.
pub unsafe trait Platform: Sync {
    /// The lock that protects the allocator's state. On bare metal it also keeps interrupts off.
    type RawLock: lock_api::RawMutex;

    /// The pages that the allocator may hand out. Constant.
    ///
    /// Page 0 is not among them: an area there would be at address 0, which is the null pointer in C and "nothing" to
    /// most users of I/O addresses. The end, too, must be an address. [`Space::new`](crate::Space::new) refuses any
    /// other span.
    fn span(&self) -> PageRange;

    /// log2 of the page size in bytes. Constant, at least 6 and at most 30.
    fn page_shift(&self) -> u32;

    /// The CPU that runs this, below [`cpus`](Self::cpus): a hint that picks a shard and protects nothing.
    fn cpu(&self) -> usize;

    /// How many CPUs there may be: at least one. Constant.
    fn cpus(&self) -> usize;

    /// Puts zeroed pages behind `range`, now or on first touch.
    ///
    /// The range is inside the span and not mapped. Pages next to it stay as they are: in particular the
    /// guard page behind it must go on faulting.
    ///
    /// # Safety
    /// The caller owns `range` exclusively.
    ///
    /// # Errors
    /// When pages, page tables or mappings run out. Nothing of `range` is mapped then: the platform undoes
    /// what it had begun.
    unsafe fn map(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError>;

    /// Takes the translations of `ranges` away, without waiting for other CPUs to notice.
    ///
    /// Ranges are disjoint and ascending, and neighbours are joined (unless memory for that was short); they
    /// hold guard pages, and may hold pages that were never mapped. On return this CPU faults on them; others
    /// may not yet, and the pages behind them may not be reused yet. A platform may flush here already.
    ///
    /// # Safety
    /// The caller owns all of `ranges` exclusively until [`flush`](Self::flush) has returned `Ok` for them, and
    /// nothing uses their memory.
    ///
    /// # Errors
    /// Any part of `ranges` may have been unmapped then. The same ranges are handed in again later, so
    /// unmapping twice must do no harm.
    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Waits until no CPU holds a translation for `ranges`, which have been unmapped, and recycles the pages
    /// that were behind them. One call for a whole purge.
    ///
    /// # Safety
    /// `unmap` has returned `Ok` for `ranges`, and they were not handed out since.
    ///
    /// # Errors
    /// Some CPU may still translate some of `ranges`. They stay lazy and are unmapped and flushed again later.
    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Fills the pages of `range`, which are all mapped, with zeros: an area that kept its pages is handed out as
    /// a zeroed one.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and it is mapped.
    unsafe fn zero(&self, range: PageRange);

    /// Whether retained areas should also be reused for less than they have, up to 1/n of their pages: worth it where new memory
    /// costs much, as page faults do; then those of other nodes are looked for as well. 0 = no, which it is unless it is
    /// implemented. See [`Config::oversize`](crate::Config::oversize).
    fn oversize(&self) -> u64 {
        0
    }

    /// Asks for a call of [`Space::drain`](crate::Space::drain), from a context that may wait: a thread, a kernel's work
    /// queue. Whether that call will come.
    ///
    /// Called by frees, so again and again until the drain has run: many calls may lead to one. May run in any context that
    /// frees, with locks of the caller's held and inside the program's heap, so it must not wait or allocate. It must
    /// not call the space, although no lock of the space is held: a free comes back at once.
    ///
    /// After `false` the freeing caller purges by itself when enough is lazy. It also does when frees outrun the drain: it is
    /// asked for at the threshold, and at twice the threshold nobody relies on it.
    ///
    /// The default is for platforms without such a context.
    fn drain_later(&self, due: Due) -> bool {
        let _ = due;
        false
    }

    /// A random number, for randomized placement and hash seeds. Need not be fast.
    fn entropy(&self) -> u64;

    /// Stops the program: the allocator's state is damaged, and going on would hand out memory twice.
    fn fatal(&self, damage: &dyn fmt::Display) -> !;
}

/// A platform whose mapped pages are ordinary memory of this program, at their own addresses.
///
/// The simulator is not one: its addresses lead nowhere.
///
/// # Safety
/// For a mapped page, `page << page_shift` is a valid, readable, writable address of this program with exposed
/// provenance, and no mapped page is at address zero.
pub unsafe trait DirectMemory: Platform {}

/// A platform that can tell which physical page stands behind an address (`vmalloc_to_page`).
pub trait Translate: Platform {
    /// The frame number behind `page`, which is inside a busy area; `None` when no page is there yet, or
    /// when the machine does not tell this program.
    fn frame(&self, page: u64) -> Option<u64>;
}
