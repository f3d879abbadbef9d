//! Areas that were unmapped as a whole, and stay mapped for the next request of their size.
//!
//! Their content is zero: it was cleared or given back when they were kept. A page that was never
//! touched is not touched for that.

use crate::kernel::{self, Answer, Change};
use crate::pages::{addr_of, bytes_of, page_bytes};
use std::ptr;
use vmalloc::PageRange;

/// The number of areas that are kept at most: a look at all of them is short.
const MOST: usize = 64;
/// One area may be as large a part of the budget.
const PART: usize = 4;
/// Pages of which the residency is asked at once.
const CHUNK: usize = 256;
/// More runs of resident pages in a chunk are given back instead: each would cost a call.
const MOST_RUNS: usize = 8;

/// The kept areas, the oldest first.
pub(crate) struct Kept {
    areas: [Option<PageRange>; MOST],
    count: usize,
    bytes: usize,
    budget: usize,
    clears: bool,
}

impl Kept {
    /// Returns a place for `budget` bytes of areas, which are cleared or given back.
    pub(crate) fn new(budget: usize, clears: bool) -> Self {
        Self { areas: [None; MOST], count: 0, bytes: 0, budget, clears }
    }

    /// Returns true if areas of `pages` pages may be kept.
    pub(crate) fn takes(&self, pages: u64) -> bool {
        addr_of(pages) <= self.budget / PART
    }

    /// Returns the area that has to go before another one of `pages` pages is kept.
    pub(crate) fn in_the_way(&self, pages: u64) -> Option<PageRange> {
        let is_full = self.count == MOST || self.bytes + addr_of(pages) > self.budget;
        if is_full { self.areas[0] } else { None }
    }

    /// Keeps an area, for which there is room.
    pub(crate) fn push(&mut self, area: PageRange) {
        self.areas[self.count] = Some(area);
        self.count += 1;
        self.bytes += addr_of(area.len());
    }

    /// Removes the youngest area of `pages` pages, for reuse.
    pub(crate) fn take(&mut self, pages: u64) -> Option<PageRange> {
        let has_size = |area: &Option<PageRange>| area.is_some_and(|area| area.len() == pages);
        self.remove(self.areas[..self.count].iter().rposition(has_size)?)
    }

    /// Returns the areas that have pages of `range`.
    pub(crate) fn all_in(&self, range: PageRange) -> impl Iterator<Item = PageRange> + '_ {
        let areas = self.areas[..self.count].iter().flatten().copied();
        areas.filter(move |area| area.intersection(&range).is_some())
    }

    /// Returns any area.
    pub(crate) fn any(&self) -> Option<PageRange> {
        self.areas[0]
    }

    /// Forgets `area`.
    pub(crate) fn forget(&mut self, area: PageRange) {
        if let Some(at) = self.areas[..self.count].iter().position(|&it| it == Some(area)) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) -> Option<PageRange> {
        let area = self.areas[at].take()?;
        self.areas[at..self.count].rotate_left(1);
        self.count -= 1;
        self.bytes -= addr_of(area.len());
        Some(area)
    }

    /// Makes the content of an area zero.
    ///
    /// # Safety
    /// The area is mapped for reading and writing, and nothing uses it.
    pub(crate) unsafe fn zero(&self, area: PageRange) -> Answer {
        let (addr, len) = bytes_of(area);
        if !self.clears {
            // SAFETY: the caller's area.
            return unsafe { discard(addr, len) };
        }
        let step = CHUNK * page_bytes();
        (addr..addr + len).step_by(step).try_fold(0, |_, at| {
            // SAFETY: a part of the caller's area.
            unsafe { clear(at, step.min(addr + len - at)) }
        })
    }
}

/// Gives pages back.
///
/// # Safety
/// Those of [`Kept::zero`].
unsafe fn discard(addr: usize, len: usize) -> Answer {
    // SAFETY: the caller's pages, which nothing uses.
    unsafe { kernel::change(addr, len, Change::Advise(libc::MADV_DONTNEED)) }
}

/// Clears the pages of a chunk that are resident. All others are given back: they may be in swap.
///
/// # Safety
/// Those of [`Kept::zero`].
unsafe fn clear(addr: usize, len: usize) -> Answer {
    let mut resident = [0_u8; CHUNK];
    // SAFETY: the caller's pages, and room for as many answers.
    unsafe { kernel::change(addr, len, Change::Residency(resident.as_mut_ptr().expose_provenance())) }?;
    let runs = || resident[..len / page_bytes()].chunk_by(|one, next| one & 1 == next & 1);
    if runs().count() > MOST_RUNS {
        // SAFETY: as above.
        return unsafe { discard(addr, len) };
    }
    let mut at = addr;
    for run in runs() {
        let bytes = run.len() * page_bytes();
        // SAFETY: as above: mapped for writing.
        unsafe {
            match run[0] & 1 {
                0 => drop(discard(at, bytes)?),
                _ => ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0, bytes),
            }
        }
        at += bytes;
    }
    Ok(0)
}
