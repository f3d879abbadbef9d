//! Calls about pages that leave them where they are.
//!
//! The kernel does them page by page up to the first hole, or on all pages but the holes, and then
//! fails with `ENOMEM`. Here a hole is mapped, so the two ways are gone by this library.

use crate::claims::Run;
use crate::kernel::{self, Answer, Change, NOWHERE};
use crate::pages::{addr_of, page_bytes, pages_of};
use crate::state::{self, Held};
use libc::c_int;
use vmalloc::PageRange;

/// Advice of which nothing outlasts the content of the pages.
const PASSING: [c_int; 9] = [
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_POPULATE_READ,
    libc::MADV_POPULATE_WRITE,
    libc::MADV_COLLAPSE,
    MADV_DONTNEED_LOCKED,
];
/// As MADV_DONTNEED, also for locked pages (Linux 5.18).
const MADV_DONTNEED_LOCKED: c_int = 24;

/// Makes a call about pages.
///
/// # Safety
/// That of the call.
pub(crate) unsafe fn change(addr: usize, len: usize, change: Change) -> Answer {
    let is_sound = addr.is_multiple_of(page_bytes()) || rounds_down(change);
    if let Some(range) = pages_of(addr, len).filter(|_| is_sound)
        && let Some(inside) = state::inside(range)
        && let Some(mut held) = state::enter()
    {
        if lasts(change) {
            held.touch(inside);
        }
        if held.has_gap(inside) {
            // SAFETY: the caller's promise.
            return unsafe { in_parts(&held, range, inside, change) };
        }
        // SAFETY: the caller's promise. The lock is held meanwhile: no page becomes a hole.
        return unsafe { kernel::change(addr, len, change) };
    }
    // SAFETY: the caller's promise. No page is in the reservation, or the kernel refuses the call.
    unsafe { kernel::change(addr, len, change) }
}

/// Returns true for calls that take any address, and mean the page that holds it.
fn rounds_down(change: Change) -> bool {
    matches!(change, Change::Lock | Change::LockWith(_) | Change::Unlock)
}

/// Returns true if something of the call outlasts the content of the pages.
fn lasts(change: Change) -> bool {
    match change {
        Change::Advise(advice) => !PASSING.contains(&advice),
        Change::Sync(_) | Change::Residency(_) => false,
        Change::Protect(_) | Change::ProtectWithKey(..) => true,
        Change::Lock | Change::LockWith(_) | Change::Unlock => true,
    }
}

/// Returns true for calls that end at the first hole. Others leave the holes out.
fn ends_at_a_hole(change: Change) -> bool {
    match change {
        Change::Advise(advice) => [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE].contains(&advice),
        Change::Sync(_) => false,
        _ => true,
    }
}

/// Makes a call about a range with holes: on the parts between them, and then about a hole.
///
/// # Safety
/// That of the call.
unsafe fn in_parts(held: &Held, range: PageRange, inside: PageRange, change: Change) -> Answer {
    let mut from = range.start();
    for run in held.runs(inside) {
        if let Run::Gap(gap) = run {
            // SAFETY: the caller's promise.
            unsafe { on_pages(from, gap.start(), change) }?;
            from = gap.end();
            if ends_at_a_hole(change) {
                break;
            }
        }
    }
    if !ends_at_a_hole(change) {
        // SAFETY: the caller's promise.
        unsafe { on_pages(from, range.end(), change) }?;
    }
    // SAFETY: nothing is there.
    unsafe { kernel::change(NOWHERE, page_bytes(), change) }
}

/// # Safety
/// That of the call.
unsafe fn on_pages(from: u64, to: u64, change: Change) -> Answer {
    let Some(part) = PageRange::new(from, to) else { return Ok(0) };
    // SAFETY: the caller's promise.
    unsafe { kernel::change(addr_of(part.start()), addr_of(part.len()), change) }
}
