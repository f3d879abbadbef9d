//! Shapes of areas, and the windows that they are in.

use super::script::Shape;
use crate::design::{Ask, PAGE_SHIFT, Setup};
use hashbrown::HashMap;
use vmalloc::PageRange;

/// The pages that designs can have: neither page 0 nor the last.
const ALL: (u64, u64) = (1, (1 << (u64::BITS - PAGE_SHIFT)) - 1);

/// The shapes of a trace, each once.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    asks: Vec<Ask>,
    numbers: HashMap<(u64, u64, Option<PageRange>), u32>,
    /// Areas that are alike often follow each other.
    last: Option<(Ask, u32)>,
}

impl Shapes {
    /// The number of a shape.
    pub(super) fn number(&mut self, pages: u64, align: u64, within: Option<PageRange>) -> u32 {
        let ask = Ask { pages, align, within };
        match self.last {
            Some((last, number)) if last == ask => number,
            _ => {
                let next = self.asks.len() as u32;
                let number = *self.numbers.entry((pages, align, within)).or_insert(next);
                if number == next {
                    self.asks.push(ask);
                }
                self.last = Some((ask, number));
                number
            }
        }
    }

    /// Returns the joined windows, and the shapes with theirs. `busy` is the most pages that are
    /// busy at a time.
    pub(super) fn settle(self, busy: u64) -> (Vec<PageRange>, Vec<Shape>) {
        let mut windows = joined(self.asks.iter().filter_map(|ask| clipped(ask.within)).collect());
        let anywhere = windows.len() as u32;
        if windows.is_empty() || self.asks.iter().any(|ask| clipped(ask.within).is_none()) {
            windows.push(wide(busy));
        }
        let shape = |ask: Ask| {
            let within = clipped(ask.within);
            let at = within.and_then(|within| windows.iter().position(|window| window.covers(&within)));
            let window = at.map_or(anywhere, |at| at as u32);
            let within = within.filter(|within| *within != windows[window as usize]);
            Shape { window, ask: Ask { within, ..ask } }
        };
        let shapes = self.asks.iter().copied().map(shape).collect();
        (windows, shapes)
    }
}

fn clipped(window: Option<PageRange>) -> Option<PageRange> {
    window.and_then(|window| window.intersection(&PageRange::new(ALL.0, ALL.1)?))
}

/// Joins windows that overlap.
fn joined(mut windows: Vec<PageRange>) -> Vec<PageRange> {
    windows.sort_unstable_by_key(PageRange::start);
    let mut joined: Vec<PageRange> = Vec::new();
    for window in windows {
        match joined.last_mut() {
            Some(last) if window.start() < last.end() => {
                *last = PageRange::new(last.start(), last.end().max(window.end())).unwrap_or(*last);
            }
            _ => joined.push(window),
        }
    }
    joined
}

/// The span of every set-up, or twice what is needed.
fn wide(busy: u64) -> PageRange {
    let usual = Setup::with_cpus(1).span;
    let pages = usual.len().max(busy.saturating_mul(2)).min(ALL.1 - usual.start());
    PageRange::from_len(usual.start(), pages).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(start, end).expect("not empty")
    }

    #[test]
    fn windows_that_overlap_are_joined_and_a_whole_window_is_no_limit() {
        let mut shapes = Shapes::default();
        for (within, number) in [
            (Some(range(100, 200)), 0),
            (Some(range(400, 600)), 1),
            (Some(range(500, 600)), 2),
            (Some(range(100, 200)), 0),
            (None, 3),
            (Some(range(0, 50)), 4),
            (Some(range(200, 300)), 5),
        ] {
            assert_eq!(shapes.number(1, 1, within), number);
        }
        let (windows, shapes) = shapes.settle(10);
        let expected = [range(1, 50), range(100, 200), range(200, 300), range(400, 600), wide(10)];
        assert_eq!(windows, expected);
        let found: Vec<_> = shapes.iter().map(|shape| (shape.window, shape.ask.within)).collect();
        let part = Some(range(500, 600));
        assert_eq!(found, [(1, None), (3, None), (3, part), (4, None), (0, None), (2, None)]);
    }

    #[test]
    fn without_windows_the_span_is_wide_enough() {
        assert_eq!(wide(0).len(), 1 << 31);
        assert_eq!(wide(1 << 40).len(), 1 << 41);
        assert!(wide(u64::MAX).end() <= ALL.1);
    }
}
