//! The highest place: the mirror of the search for the lowest.
//!
//! A free range takes a request at its high end if and only if it takes it at its low end, so
//! summaries answer for both: the last leaf that says yes holds the answer.
//!
//! Limits are mirrored as well. The upper one may lie inside a free range, so the leaf of that one
//! is tried first, with what lies above cut off. The lower one needs no search: what fits highest
//! and does not fit above the limit leaves nothing else that could.
//!
//! Everything here is apart from the way of the lowest place, which has a form of its own for each
//! common case; O(log n) is enough for this one.

use super::AreaMap;
use super::bitmap::{LEAF_PAGES, WORDS};
use super::leaf::Leaf;
use super::scan::DENSE;
use super::search::Place;
use super::summary::Query;
use crate::Fit;
use crate::PageRange;

impl AreaMap<'_> {
    /// Returns the highest place for `fit` inside `within`, which is inside the span. O(log n)
    /// where size and an alignment up to 2^13 pages say everything; else ranges are tried one by
    /// one.
    #[inline(never)]
    pub(super) fn highest(&self, fit: &Fit, within: PageRange) -> Option<Place> {
        let query = Query::new(fit.pages(), fit.order());
        let mut leaf = if within.end() == self.span().end() {
            self.tree.last(&query, &self.steps)?
        } else {
            self.locate(within.end() - 1)?.0
        };
        loop {
            let record = self.bitmaps.leaf(leaf);
            if let Some(place) = self.last_in_leaf(leaf, record, within.end(), fit) {
                return Some(place).filter(|place| place.start >= within.start());
            }
            // Ranges that start in leaves before this one end where it starts, or earlier.
            if record.first_start().is_none_or(|first| record.page(first) <= within.start()) {
                return None;
            }
            leaf = self.tree.prev(record.up.get(), &query, &self.steps)?;
        }
    }

    /// Returns the last free range of `leaf` that takes `fit` below page `upper`.
    fn last_in_leaf(&self, leaf: u32, record: &Leaf, upper: u64, fit: &Fit) -> Option<Place> {
        if record.free_ranges() > DENSE {
            return self.last_in_dense_leaf(leaf, record, upper, fit);
        }
        for word in (0..WORDS).rev() {
            let mut free = record.free_word(word);
            while free != 0 {
                self.steps.tick();
                let bit = free.ilog2();
                let range = self.range_at(record, word, bit);
                if let Some(start) = fit.highest_below(upper, range) {
                    return Some(Place { leaf, range, start });
                }
                free ^= 1 << bit;
            }
        }
        None
    }

    fn last_in_dense_leaf(&self, leaf: u32, record: &Leaf, upper: u64, fit: &Fit) -> Option<Place> {
        self.steps.tick();
        let (runs, tail) = record.free_runs();
        if let Some(tail) = tail {
            let range = PageRange::of(record.page(tail), self.bitmaps.first_start_behind(record));
            if let Some(start) = fit.highest_below(upper, range) {
                return Some(Place { leaf, range, start });
            }
        }
        let below = upper.saturating_sub(record.base());
        let runs = if below < u64::from(LEAF_PAGES) { runs.before(below as u32) } else { runs };
        let bit = runs.last_fit(fit.pages(), fit.order(), record.base(), &self.steps)?;
        let first = record.start_at_or_before(bit)?;
        let range = PageRange::of(record.page(first), self.bitmaps.end_of(record, first));
        Some(Place { leaf, range, start: record.page(bit) })
    }
}
