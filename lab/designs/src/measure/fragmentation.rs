//! How much address space a random live set takes, as time goes by, and what it looks like in the
//! end.
//!
//! The space is about four times as large as what is live, so that a design that scatters is seen
//! to, and one that keeps freed addresses for long runs short.

use super::{Budget, MOST_PAGES, random_pages};
use crate::designs::Name;
use crate::picture::Strip;
use crate::rng::Rng;
use crate::{Ask, Design, Segment, Setup, State};
use serde::Serialize;
use vmalloc::PageRange;

/// Live areas: few enough that each is seen in a picture.
pub const LIVE: u64 = 2000;
/// Points of a line.
const SAMPLES: u64 = 120;
/// The first page, a round address.
const FIRST_PAGE: u64 = 1 << 19;
/// Pages of the space.
pub const SPAN_PAGES: u64 = (LIVE * MOST_PAGES * 2).next_power_of_two();

/// A design's space over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fragmentation {
    /// In order of time.
    pub samples: Vec<Sample>,
    /// Requests that were refused.
    pub refused: u64,
    /// The space in the end.
    #[serde(skip)]
    pub strip: Strip,
}

/// The space at a moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Sample {
    /// Areas replaced so far.
    pub replaced: u64,
    /// Pages from the first live one to the last.
    pub span_pages: u64,
    /// Pages that are live.
    pub live_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// Pages freed that wait for a purge.
    pub lazy_pages: u64,
    /// Pages freed that wait for a request of their size.
    pub pooled_pages: u64,
}

/// The space of `name`.
#[must_use]
pub fn measure(name: Name, budget: &Budget) -> Fragmentation {
    let span = PageRange::from_len(FIRST_PAGE, SPAN_PAGES).unwrap_or_else(|| unreachable!("constants"));
    let design = name.build(&Setup::of_this_machine().span(span));
    let design = design.as_ref();
    let mut rng = Rng::new(3);
    let mut refused = 0;
    let mut alloc = |rng: &mut Rng| {
        let start = design.alloc(&Ask::new(random_pages(rng))).ok();
        refused += u64::from(start.is_none());
        start
    };
    let mut starts: Vec<_> = (0..LIVE).map(|_| alloc(&mut rng)).collect();
    let mut samples = vec![sample(design, 0)];
    let period = (budget.replacements / SAMPLES).max(1);
    for replaced in 1..=budget.replacements {
        let slot = &mut starts[rng.below(LIVE) as usize];
        if let Some(start) = slot.take() {
            design.free(start).unwrap_or_else(|error| panic!("{}: {error}", design.name()));
        }
        *slot = alloc(&mut rng);
        if replaced.is_multiple_of(period) {
            samples.push(sample(design, replaced));
        }
    }
    Fragmentation { samples, refused, strip: Strip::of_design(design) }
}

fn sample(design: &dyn Design, replaced: u64) -> Sample {
    let counts = design.counts();
    let segments = design.segments();
    let busy = |segment: &&Segment| segment.state == State::Busy;
    let first = segments.iter().find(busy).map_or(0, |segment| segment.range.start());
    let last = segments.iter().rfind(busy).map_or(0, |segment| segment.range.end());
    Sample {
        replaced,
        span_pages: last - first,
        live_pages: counts.busy_pages,
        largest_free_pages: counts.largest_free_pages,
        lazy_pages: counts.lazy_pages,
        pooled_pages: counts.pooled_pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Class, totals};

    #[test]
    fn samples_and_the_last_look_agree() {
        for &name in Name::ALL {
            let told = measure(name, &Budget { replacements: 3000, ..Budget::QUICK });
            let last = told.samples.last().expect("samples");
            assert_eq!((told.samples.len() as u64, last.replaced, told.refused), (SAMPLES + 1, 3000, 0));
            assert!(last.span_pages >= last.live_pages);
            let totals = totals(&[told.strip]);
            assert_eq!(totals[Class::Busy.index()].bytes >> 12, last.live_pages);
            assert_eq!(totals.iter().map(|total| total.bytes >> 12).sum::<u64>(), SPAN_PAGES);
        }
    }
}
