//! Which pages of the reservation are the program's.
//!
//! ```text
//!   segment of the map    free           busy            retired
//!   a page of it is       mapped         the program's,  in a kept area
//!                         without access as the kernel   for reuse
//!                                        says
//! ```
//!
//! An area has no meaning beyond its pages here: the program may unmap a part of it, or two of them
//! with one call.
//!
//! While a thread forks the claims are *frozen*: the map stays as it is, and what changes goes to a
//! list, see [`changes`](crate::changes). Nothing is allocated then, neither pages nor records.

use crate::changes::Changes;
use crate::kept::Kept;
use crate::pages::page_bytes;
use vmalloc::area_map::State;
use vmalloc::{AllocError, AreaMap, Fit, PageRange};

/// Returns how many pages a huge page has: those of a table of eight bytes a page. Areas of a
/// multiple of as many pages start at one, as the kernel places them for huge pages.
fn huge_pages() -> u64 {
    (page_bytes() / size_of::<u64>()) as u64
}

/// A part of a range, all of it the program's or none of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Run {
    /// Pages of the program's: of one area, unless the claims are frozen.
    Live(PageRange),
    /// Pages that are not the program's.
    Gap(PageRange),
}

impl Run {
    fn range(self) -> PageRange {
        match self {
            Self::Live(range) | Self::Gap(range) => range,
        }
    }
}

/// The pages of the reservation.
pub(crate) struct Claims {
    map: AreaMap<'static>,
    changes: Changes,
    is_frozen: bool,
}

/// Gaps that were claimed.
pub(crate) enum Claimed {
    /// By the map.
    Gaps(Vec<PageRange>),
    /// By a change, the last one, of all these pages.
    Changed(PageRange),
}

impl Claims {
    /// Returns claims in which no page is the program's.
    pub(crate) fn new(span: PageRange) -> Result<Self, AllocError> {
        Ok(Self { map: AreaMap::new(span)?, changes: Changes::new(), is_frozen: false })
    }

    /// Returns true while a thread forks.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Leaves the map as it is from now on.
    pub(crate) fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Returns the list of changes, while the claims are frozen.
    pub(crate) fn changes(&self) -> Option<&Changes> {
        self.is_frozen.then_some(&self.changes)
    }

    /// Makes the changes to the map, and no longer leaves it as it is. Without memory for the
    /// records the claims stay frozen: later calls are answered as before, and new mappings are the
    /// kernel's.
    pub(crate) fn thaw(&mut self, kept: &mut Kept) {
        self.is_frozen = false;
        let mut at = 0;
        // All again, if it failed before: the last change of a page decides.
        while let Some((range, is_live)) = self.changes.get(at) {
            if is_live {
                while let Some(gap) = self.first_gap(range) {
                    if self.map.alloc_at(gap).is_err() {
                        self.is_frozen = true;
                        return;
                    }
                }
            } else {
                self.drop_changed(range, kept);
            }
            at += 1;
        }
        self.changes.truncate(0);
    }

    /// Frees pages that were unmapped, kept areas among them.
    fn drop_changed(&mut self, range: PageRange, kept: &mut Kept) {
        loop {
            let Some(area) = kept.all_in(range).next() else { break };
            kept.forget(area);
            self.revive(area.start());
        }
        let mut rest = Some(range);
        while let Some(part) = rest.and_then(|rest| self.first_live(rest)) {
            self.free(part);
            rest = PageRange::new(part.end(), range.end());
        }
    }

    /// Claims pages at the lowest place. Frozen claims have none.
    pub(crate) fn alloc(&mut self, pages: u64) -> Option<PageRange> {
        let align = if pages.is_multiple_of(huge_pages()) { huge_pages() } else { 1 };
        if self.is_frozen { None } else { self.map.alloc(&Fit::new(pages).align(align)).ok() }
    }

    /// Claims all gaps of `range`. Returns `None`, and claims nothing, if there is no memory for
    /// the records.
    pub(crate) fn claim_gaps(&mut self, range: PageRange) -> Option<Claimed> {
        if self.is_frozen && self.first_gap(range).is_some() {
            return self.changes.push(range, true).then_some(Claimed::Changed(range));
        }
        let mut gaps = Vec::new();
        while let Some(gap) = self.first_gap(range) {
            if gaps.try_reserve(1).is_err() || self.map.alloc_at(gap).is_err() {
                gaps.iter().for_each(|&gap| self.free(gap));
                return None;
            }
            gaps.push(gap);
        }
        Some(Claimed::Gaps(gaps))
    }

    /// Frees the gaps for which `is_free` returns true, after nothing was done to other pages since
    /// they were claimed.
    pub(crate) fn unclaim(&mut self, claimed: &Claimed, is_free: impl Fn(PageRange) -> bool) {
        match claimed {
            Claimed::Gaps(gaps) => {
                gaps.iter().filter(|&&gap| is_free(gap)).for_each(|&gap| self.free(gap));
            }
            Claimed::Changed(range) => {
                self.changes.truncate(self.changes.len().saturating_sub(1));
                let mut rest = Some(*range);
                while let Some(gap) = rest.and_then(|rest| self.first_gap(rest)) {
                    if !is_free(gap) {
                        self.changes.push(gap, true);
                    }
                    rest = PageRange::new(gap.end(), range.end());
                }
            }
        }
    }

    /// Frees pages of one area, which are mapped without access again. Without memory for the
    /// records they stay the program's (I2).
    pub(crate) fn free(&mut self, range: PageRange) {
        if self.is_frozen {
            self.changes.push(range, false);
        } else {
            let _ = self.map.free_part(range);
        }
    }

    /// Retires the area that starts at page `start`.
    pub(crate) fn retire(&mut self, start: u64) -> bool {
        self.map.retire(start).is_ok()
    }

    /// Makes the retired area that starts at page `start` busy again.
    pub(crate) fn revive(&mut self, start: u64) -> Option<PageRange> {
        self.map.revive(start).ok()
    }

    /// Returns the area of the program's that holds `page`.
    pub(crate) fn area(&self, page: u64) -> Option<PageRange> {
        self.map.find(page)
    }

    /// Returns the runs of `range`, in order.
    pub(crate) fn runs(&self, range: PageRange) -> impl Iterator<Item = Run> + '_ {
        let mut rest = Some(range);
        std::iter::from_fn(move || {
            let run = self.first_run(rest?)?;
            rest = PageRange::new(run.range().end(), range.end());
            Some(run)
        })
    }

    fn first_run(&self, range: PageRange) -> Option<Run> {
        let (range, changed) = self.changes().map_or((range, None), |changes| changes.first(range));
        if let Some(is_live) = changed {
            return Some(if is_live { Run::Live(range) } else { Run::Gap(range) });
        }
        let segment = self.map.segments_from(range.start()).next()?;
        let part = segment.range.intersection(&range)?;
        Some(if segment.state == State::Busy { Run::Live(part) } else { Run::Gap(part) })
    }

    /// Returns the first pages of the program's in `range` that are of one area.
    pub(crate) fn first_live(&self, range: PageRange) -> Option<PageRange> {
        self.runs(range).find_map(|run| match run {
            Run::Live(part) => Some(part),
            Run::Gap(_) => None,
        })
    }

    /// Returns the first pages of `range` that are not the program's.
    pub(crate) fn first_gap(&self, range: PageRange) -> Option<PageRange> {
        self.runs(range).find_map(|run| match run {
            Run::Gap(part) => Some(part),
            Run::Live(_) => None,
        })
    }
}
