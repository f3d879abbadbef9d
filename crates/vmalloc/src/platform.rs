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
//!                      ▼  │ (caching)            │ translate it. Its old pages are NOT
//!                    cached                      │ back in the supply.
//! ```
//!
//! *Unmapped*, *flushed* and *reusable* are three things. Only after [`Platform::flush`] has returned for a
//! range may its addresses be handed out again, and only then may the platform recycle the pages behind them.

use crate::addr::PageRange;
use crate::error::{PlatformError, PlatformFault};
use core::fmt;

/// What may be done with the pages of an area.
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

/// A page of memory that can be mapped at several addresses at once, by its number on its platform.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Frame(pub u64);

impl Frame {
    /// The frame `n` numbers further.
    #[inline]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// It was taken from the platform's supply and not given back yet.
    Supply,
    /// It is memory of a device, which is never in the supply.
    Device,
    /// Neither: it may not be mapped.
    Foreign,
}

/// Why a drain is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainReason {
    /// Much is lazy: at once.
    Threshold,
    /// Something is kept where nothing was, and has to go by its age: after a while, and then again as long as
    /// [`Space::drain`](crate::Space::drain) says that something is left.
    Age,
}

/// The machine below the allocator.
///
/// No method is called with the lock held that allocations and frees take, so an implementation may take its
/// own locks freely. `unmap` and `flush` run under the [`PurgeLock`](Platform::PurgeLock), that only purges take. An implementation must not
/// call back into the space that calls it.
///
/// # Safety
/// The allocator hands out addresses as memory on the strength of these promises:
/// - [`span`](Self::span) is constant and belongs to the allocator alone.
/// - After `map(range)` has returned `Ok`, every byte of `range` can be read and written until `unmap` is
///   called for it, and nothing else is reachable through it. Pages that were not mapped before read as zero, if
///   [`zeroes`](Self::zeroes) says so.
/// - After `unmap` and `flush` have both returned `Ok` for a range, no CPU reaches its former pages through
///   it any more.
/// - The lock excludes, as `lock_api::RawMutex` asks.
pub unsafe trait Platform: Sync {
    /// The lock that protects the allocator's state: held for a bounded number of areas, never over a call of the platform.
    /// On bare metal it also keeps interrupts off.
    type RawLock: lock_api::RawMutex;

    /// The lock that one purge holds from its beginning to its end, [`unmap`](Self::unmap) and [`flush`](Self::flush)
    /// included; who needs the addresses waits for it. On bare metal it leaves interrupts on, and whoever waits for it
    /// goes on answering other CPUs: a flush waits for all of them.
    type PurgeLock: lock_api::RawMutex;

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

    /// Puts pages behind `range`, now or on first touch: [zeroed](Self::zeroes) ones unless the platform says otherwise.
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

    /// log2 of the base pages in a huge page, if this machine has any. Constant.
    fn huge_order(&self) -> Option<u32> {
        None
    }

    /// As [`map`](Self::map), and with huge pages where `range` covers a whole, aligned one and the supply has one; with base
    /// pages everywhere else.
    ///
    /// # Safety
    /// As for [`map`](Self::map).
    ///
    /// # Errors
    /// As for [`map`](Self::map). That no huge page is to be had is not one.
    unsafe fn map_huge(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.map(range, protection) }
    }

    /// Takes the translations of `ranges` away, without waiting for other CPUs to notice.
    ///
    /// Ranges are disjoint and ascending, and neighbours are joined (unless memory for that was short, or the
    /// platform has refused some of them); they hold guard pages, and may hold pages that were never mapped. On return this CPU faults on them; others
    /// may not yet, and the pages behind them may not be reused yet. A platform may flush here already.
    ///
    /// # Safety
    /// The caller owns all of `ranges` exclusively until [`flush`](Self::flush) has returned `Ok` for them, and
    /// nothing uses their memory.
    ///
    /// # Errors
    /// Any part of `ranges` may have been unmapped then. The same pages are handed in again, at once and later, alone or
    /// with others, until the ranges that are refused are known. So unmapping twice must do no harm.
    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Waits until no CPU holds a translation for `ranges`, which have been unmapped, and recycles the pages
    /// that were behind them. One call for a whole purge.
    ///
    /// # Safety
    /// `unmap` has returned `Ok` for `ranges`, and they were not handed out since.
    ///
    /// # Errors
    /// Some CPU may still translate some of `ranges`. They stay lazy and are unmapped and flushed again, as for
    /// [`unmap`](Self::unmap).
    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Annotations that the program has changed what the machine does with the pages of `range`, behind the
    /// platform's back: locked them, protected them, or advised the system about them. The next
    /// [`unmap`](Self::unmap) then replaces them by pages as new. A platform whose pages have no such
    /// attributes does nothing.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, it is mapped, and nothing uses its memory any more.
    ///
    /// # Errors
    /// When there is no memory to annotation it; nothing is changed.
    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        let _ = range;
        Ok(())
    }

    /// Whether pages that were not mapped before read as zero. Constant. Where clearing costs the platform what it costs anybody,
    /// as in a kernel, `false` leaves it to [`zero`](Self::zero), and so to those who ask for zeros.
    fn zeroes(&self) -> bool {
        true
    }

    /// Fills the pages of `range`, which are all mapped, with zeros: for who asks for zeros where an area kept its pages, or
    /// the platform does not [zero](Self::zeroes) new ones.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and it is mapped.
    unsafe fn zero(&self, range: PageRange);

    /// Whether cached areas should also be reused for less than they have, up to 1/n of their pages: worth it where new memory
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
    fn drain_later(&self, due: DrainReason) -> bool {
        let _ = due;
        false
    }

    /// Wakes whoever [`drain_later`](Self::drain_later) would have call
    /// [`Space::drain`](crate::Space::drain); whether that call will come.
    ///
    /// Called by [`vfree_atomic`](crate::Space::vfree_atomic): in a signal handler that has
    /// interrupted anything, in an interrupt, with any lock of the program or kernel held. So it
    /// creates nothing, takes no memory, no lock, and waits for nothing. Where the drain would need
    /// something to be created first it does nothing: the next call of the space that may create
    /// things asks by `drain_later`.
    ///
    /// The default is for platforms that can wake nobody from there.
    fn wake_drain(&self) -> bool {
        false
    }

    /// Whether what is put behind pages that are mapped replaces, on return and for every CPU, what was there. Then the addresses of
    /// [blocks](crate::block) may be mapped anew without a flush. Constant.
    fn replaces(&self) -> bool {
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
pub unsafe trait DirectMemory: Platform {
    /// Moves the pages behind `from` to `to`, of the same length, without copying them. On return `from` is as after
    /// [`unmap`](Platform::unmap): it faults on this CPU, and has to be unmapped and flushed before it is handed out.
    ///
    /// # Safety
    /// The caller owns both ranges exclusively; `from` is mapped by [`map`](Platform::map), `to` is not mapped.
    ///
    /// # Errors
    /// Both ranges are as before. [`Unsupported`](crate::PlatformFault::Unsupported), which it is unless it is implemented,
    /// tells the caller to copy.
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        let _ = (from, to);
        Err(PlatformError { call: "relocate", fault: PlatformFault::Unsupported, code: 0 })
    }
}

/// A platform with a supply of pages that can be mapped at several addresses at once: for `vmap` and all its kin.
///
/// # Safety
/// - A frame that [`take_frames`](Self::take_frames) or [`take_run`](Self::take_run) handed out is handed out to nobody else until
///   it is given back.
/// - After [`map_frames`](Self::map_frames) has returned `Ok`, page `i` of the range leads to frame `i`, until the range is
///   unmapped or, where that is allowed, mapped anew. Two pages that lead to one frame show the same bytes.
/// - What [`linear`](Self::linear) says is true for as long as the platform lives.
pub unsafe trait Frames: Platform {
    /// Takes frames out of the supply, of any content, as many as `frames` has room for: consecutive ones as far as that is easily
    /// done. In bulk, all or none.
    ///
    /// # Errors
    /// When there are fewer. None is taken then.
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError>;

    /// Takes `count` consecutive frames, not 0, the first at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// When there is no such run. None is taken then.
    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError>;

    /// Gives frames back to the supply, in any order and grouping.
    ///
    /// # Safety
    /// They were taken and not given back since; nobody uses them, be it through an address that still leads to them.
    unsafe fn give_frames(&self, frames: &[Frame]);

    /// Whose `frame` is. Never waits.
    fn origin(&self, frame: Frame) -> Origin;

    /// Whether `count` frames from `first` on are all the [supply's](Origin::Supply). Never waits.
    fn are_taken(&self, first: Frame, count: u64) -> bool {
        (0..count).all(|nth| self.origin(first.plus(nth)) == Origin::Supply)
    }

    /// Puts `frames`, as many as `range` has pages, behind `range`.
    ///
    /// The range is inside the span and not mapped; if the platform [`replaces`](Platform::replaces), it may be mapped to other frames.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and the frames are [the supply's or a device's](Origin).
    ///
    /// # Errors
    /// When page tables or mappings run out. The caller owns `range` as before; nothing is mapped there that was not.
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError>;

    /// Says that nothing uses the frames behind `range` through it any more. Where that is cheap they are unmapped at once, as by
    /// [`unmap`](Platform::unmap), which will be called for the range before it is flushed, if it is not mapped anew before.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and it was mapped by [`map_frames`](Self::map_frames).
    unsafe fn let_go(&self, range: PageRange) {
        let _ = range;
    }

    /// The frame behind `page`, if [`map_frames`](Self::map_frames) put one there, and nothing has taken it away.
    fn frame_at(&self, page: u64) -> Option<Frame>;

    /// Returns the first page of `range` that leads to a frame. A range may be terabytes, nearly all of
    /// it empty, so a platform should skip what is: unless it is implemented, this asks for each page.
    fn first_mapped(&self, range: PageRange) -> Option<u64> {
        (range.start()..range.end()).find(|&page| self.frame_at(page).is_some())
    }

    /// Where frame 0, 1, 2 … of the supply can be used at any time, readable and writable, if there is such a place.
    /// Constant. Outside the [span](Platform::span).
    fn linear(&self) -> Option<PageRange> {
        None
    }
}

/// A platform that can change what may be done with pages.
///
/// # Safety
/// After `Ok` no CPU can do with the pages what the protection does not allow.
pub unsafe trait Protect: Platform {
    /// Lets every CPU do with the pages of `range`, which are mapped, what `protection` allows, and nothing else.
    ///
    /// # Safety
    /// The caller owns `range` exclusively.
    ///
    /// # Errors
    /// Each page has the old protection or the new one.
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError>;
}

/// A platform that can read addresses which may lead nowhere.
pub trait Peek: Platform {
    /// Copies bytes from `addr` on into `to`, as far as they can be read: how many, up to the first that can't be. Never faults, even
    /// if pages are unmapped meanwhile.
    fn peek(&self, addr: usize, to: &mut [u8]) -> usize;
}

/// A platform that can tell which physical page stands behind an address (`vmalloc_to_page`).
pub trait Translate: Platform {
    /// The frame number behind `page`, which is inside a busy area; `None` when no page is there yet, or
    /// when the machine does not tell this program.
    fn frame(&self, page: u64) -> Option<u64>;
}
