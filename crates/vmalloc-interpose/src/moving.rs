//! mremap(2).
//!
//! ```text
//!   source, target    in the reservation              elsewhere
//!   shrinks           its end is unmapped as by       the kernel's
//!                     munmap(2)
//!   grows, moves      the kernel moves it away;       the kernel's
//!                     its pages are reserved again
//!   target            its gaps are claimed before     the kernel's
//! ```
//!
//! A source that is moved away leaves a hole for a moment, since no call moves a mapping and
//! reserves its place at once. If another thread's mapping comes to lie there, the pages stay the
//! kernel's business (I2).

use crate::kernel::{self, Answer, Remap};
use crate::pages::{page_bytes, pages_of};
use crate::state::{self, Held};
use libc::c_int;
use vmalloc::PageRange;

const KNOWN: c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
const TO_ELSEWHERE: c_int = libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;

/// Resizes or moves a mapping.
///
/// # Safety
/// That of mremap(2).
pub(crate) unsafe fn mremap(remap: &Remap) -> Answer {
    let source = pages_of(remap.addr, remap.old.max(1)).and_then(state::inside);
    let is_fixed = remap.flags & libc::MREMAP_FIXED != 0;
    let target = if is_fixed { pages_of(remap.to, remap.new).and_then(state::inside) } else { None };
    if (source.is_some() || target.is_some())
        && is_sound(remap)
        && let Some(held) = state::enter()
    {
        // SAFETY: the caller's promise.
        return unsafe { locked(held, remap, source, target) };
    }
    // SAFETY: the caller's promise. Where pages of the reservation are named, the kernel refuses
    // the call for its arguments alone.
    unsafe { kernel::mremap(remap) }
}

/// Returns false where the kernel refuses a call without a look at what is mapped.
fn is_sound(remap: &Remap) -> bool {
    let Remap { addr, old, new, flags, to } = *remap;
    let (source, target) = (pages_of(addr, old), pages_of(to, new));
    let is_apart = source.zip(target).is_none_or(|(source, target)| source.intersection(&target).is_none());
    let moves = flags & libc::MREMAP_MAYMOVE != 0 || flags & TO_ELSEWHERE == 0;
    addr.is_multiple_of(page_bytes())
        && new != 0
        && flags & !KNOWN == 0
        && moves
        && (flags & libc::MREMAP_FIXED == 0 || is_apart && to.is_multiple_of(page_bytes()))
        && (flags & libc::MREMAP_DONTUNMAP == 0 || pages(old) == pages(new))
        && pages_of(addr, new).is_some()
}

/// # Safety
/// That of mremap(2).
unsafe fn locked(
    mut held: Held,
    remap: &Remap,
    source: Option<PageRange>,
    target: Option<PageRange>,
) -> Answer {
    let first = pages_of(remap.addr, 1).and_then(state::inside);
    if first.is_some_and(|first| held.has_gap(first)) {
        return Err(libc::EFAULT);
    }
    if remap.flags & TO_ELSEWHERE == 0 && pages(remap.old) >= pages(remap.new) {
        // SAFETY: the caller's promise.
        return unsafe { shrink(held, remap) };
    }
    if source.is_some_and(|source| held.has_gap(source)) {
        return Err(libc::EFAULT);
    }
    let gaps = target.map(|target| held.claim_gaps(target)).transpose()?;
    [source, target].into_iter().flatten().for_each(|range| held.touch(range));
    // SAFETY: the caller's promise, and gaps are claimed.
    let to =
        unsafe { kernel::mremap(remap) }.inspect_err(|_| gaps.iter().for_each(|gaps| held.unclaim(gaps)))?;
    if let Some(source) = source.filter(|_| to != remap.addr && remap.flags & libc::MREMAP_DONTUNMAP == 0) {
        held.unmapped(source);
    }
    Ok(to)
}

/// Unmaps the end of a mapping.
///
/// # Safety
/// That of mremap(2).
unsafe fn shrink(mut held: Held, remap: &Remap) -> Answer {
    let Remap { addr, old, new, .. } = *remap;
    // The kernel's own word on the rest of the arguments: nothing changes.
    // SAFETY: the caller's promise. The first page is the program's.
    unsafe { kernel::mremap(&Remap { old: page_bytes(), new: page_bytes(), ..*remap }) }?;
    let rest = pages(old) - pages(new);
    if let Some(tail) = pages_of(addr + pages(new), rest) {
        let Some(inside) = state::inside(tail) else {
            // SAFETY: the caller's promise.
            return unsafe { kernel::mremap(remap) };
        };
        held.unmap(inside)?;
        if let Some(behind) = PageRange::new(inside.end(), tail.end()) {
            let (addr, len) = crate::pages::bytes_of(behind);
            // SAFETY: the caller's pages, behind the reservation.
            unsafe { kernel::munmap(addr, len) }?;
        }
    }
    Ok(addr)
}

/// Returns `len` bytes, rounded up to pages.
fn pages(len: usize) -> usize {
    len.saturating_add(page_bytes() - 1) / page_bytes() * page_bytes()
}
