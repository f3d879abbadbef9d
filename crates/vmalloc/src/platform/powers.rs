//! The powers beyond [`Platform`], but for those over frames.

use super::{Platform, PlatformError, PlatformFault, Protection};
use crate::PageRange;
use core::ptr::NonNull;

/// The extras of a platform, which [`Platform::extras`] returns: none is needed, and a space uses
/// those that are there. A default stands for a machine that can't.
///
/// # Safety
/// - Nothing else uses what [`lend_records`](Self::lend_records) returns.
/// - After [`unmap_now`](Self::unmap_now) has returned `Ok` for a range, no CPU reaches its former
///   pages through it any more.
/// - Mapped pages stay mapped, with their content, until they are unmapped.
pub unsafe trait Extras {
    /// Lends `bytes` zeroed bytes for records, at a multiple of 64, of which only what is touched
    /// takes memory. Nothing else uses them for as long as the platform lives. A space asks once,
    /// when it is made; with them it needs a step less to find an area. The default is for
    /// platforms where memory is there before it is touched.
    fn lend_records(&self, bytes: usize) -> Option<NonNull<u8>> {
        None
    }

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
    /// [`unmap`](Platform::unmap) and [`flush`](Platform::flush).
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        Err(PlatformError { call: "unmap_now", fault: PlatformFault::Unsupported, code: 0 })
    }

    /// Gives memory back to the machine that the platform has kept of unmapped ranges, to put it
    /// behind others. Each purge that evicts pooled areas calls it, and so does a purge for an
    /// allocation in need. Returns whether the platform still keeps some. The default is for
    /// platforms that keep nothing.
    fn evict_memory(&self, part: Evict) -> bool {
        false
    }

    /// Notes that the program has changed what the machine does with the pages of `range`, behind
    /// the platform's back: locked them, protected them, or advised the system about them. The next
    /// [`unmap`](Platform::unmap) then replaces them by pages as new. A platform whose pages have no
    /// such attributes does nothing.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, it is mapped, and nothing uses its memory any more.
    ///
    /// # Errors
    /// When there is no memory to remember it; nothing is changed.
    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
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
    unsafe fn make_huge(&self, range: PageRange) {}
}

// SAFETY: it lends nothing, unmaps nothing and changes nothing.
unsafe impl Extras for () {}

/// The part of the memory that [`Extras::evict_memory`] gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Evict {
    /// A quarter: memory decays.
    Quarter,
    /// All of it.
    All,
}

/// A platform that can drop the memory behind mapped pages, and tell which of them were used.
///
/// # Safety
/// After [`discard`](Self::discard) has returned `Ok`, the pages read as zero on every CPU, can be
/// written, and no CPU reaches the memory that was behind them. [`touched`](Self::touched) reports
/// every page that may hold anything but zeros.
pub unsafe trait Discard: Platform {
    /// Makes the pages of `ranges`, which are mapped, read as zero, and stay mapped. The memory
    /// that was behind them may go back to the machine. One call and one flush for all of them, as
    /// far as the machine has such a call. May run on several CPUs at once, for different ranges.
    ///
    /// Ranges are disjoint and ascending, and neighbours are joined.
    ///
    /// # Safety
    /// The caller owns all of `ranges`, they are mapped by [`map`](Platform::map), and nothing
    /// needs their content.
    ///
    /// # Errors
    /// Each page reads as zero, or as it did before.
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Calls `found` with the runs of pages inside `range` that may hold anything but zeros,
    /// ascending. A platform that can't tell reports all of it, which is the default.
    ///
    /// # Safety
    /// The caller owns `range`, and all of it is mapped.
    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        found(range);
    }
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
