//! The answers that a design may give, from the segments that it showed before.

use vmalloc::PageRange;
use vmalloc_lab::designs::Name;
use vmalloc_lab::{Ask, Segment, State};

/// Ranges in address order, merged where they touch.
pub(crate) type Ranges = Vec<PageRange>;

/// The ranges of all segments in one of these states.
pub(crate) fn ranges(segments: &[Segment], states: &[State]) -> Ranges {
    let mut ranges = Ranges::new();
    for Segment { range, .. } in segments.iter().filter(|it| states.contains(&it.state)) {
        match ranges.last_mut() {
            Some(last) if last.end() == range.start() => {
                *last = PageRange::new(last.start(), range.end()).expect("it grew");
            }
            _ => ranges.push(*range),
        }
    }
    ranges
}

/// Where a design has to put what it places by search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// The lowest fit.
    Lowest,
    /// The lowest fit for a multiple of the alignment, if that is at most four pages.
    LowestPadded,
    /// The lowest range that has, from the lower limit on, pages + align − 1 pages.
    LowestSure,
}

/// Returns what a design promises about searches, and true if it places every area by a search.
pub(crate) fn promise(name: Name) -> (Promise, bool) {
    match name {
        Name::BusyList | Name::BusyListP0 => (Promise::Lowest, true),
        Name::FreeList => (Promise::LowestPadded, true),
        Name::Augmented | Name::AugmentedP0 | Name::AugmentedP1 => (Promise::LowestSure, true),
        Name::Nodes => (Promise::LowestSure, false),
        Name::Vmalloc | Name::VmallocCached => (Promise::Lowest, false),
    }
}

impl Promise {
    /// The pages that an area for `ask` gets.
    pub(crate) fn pages(self, ask: &Ask) -> u64 {
        match self {
            Self::LowestPadded if ask.align <= 4 => ask.pages.next_multiple_of(ask.align),
            _ => ask.pages,
        }
    }

    /// Where the search finds a place in free ranges.
    pub(crate) fn place(self, free: &Ranges, ask: &Ask) -> Option<u64> {
        let within = ask.within.unwrap_or(PageRange::new(0, u64::MAX).expect("all"));
        let pages = self.pages(ask);
        let fits = |range: &PageRange| {
            let start = range.start().max(within.start()).next_multiple_of(ask.align);
            (start + pages <= range.end().min(within.end())).then_some(start)
        };
        match self {
            Self::Lowest | Self::LowestPadded => free.iter().find_map(fits),
            Self::LowestSure => {
                let sure = |range: &&PageRange| {
                    range.end().saturating_sub(range.start().max(within.start())) >= pages + ask.align - 1
                };
                free.iter().find(sure).and_then(fits)
            }
        }
    }
}

/// The highest base of a group: every one is tried, from the top.
pub(crate) fn highest_base(free: &Ranges, offsets: &[u64], sizes: &[u64], align: u64) -> Option<u64> {
    let covered = |part: PageRange| free.iter().any(|range| range.covers(&part));
    let fits = |base: &u64| {
        offsets
            .iter()
            .zip(sizes)
            .all(|(&offset, &pages)| covered(PageRange::from_len(base + offset, pages).expect("a part")))
    };
    let top = free.last()?.end();
    (0..=top / align).rev().map(|multiple| multiple * align).find(fits)
}
