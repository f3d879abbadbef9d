//! What a walk over the free ranges finds, and how many ranges it tries.

use vmalloc_map::{Fit, PageRange};
use vmalloc_model::Ask;

/// So many pages, aligned to `2^order` pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) pages: u64,
    pub(crate) order: u32,
}

impl Request {
    pub(crate) fn ask(self) -> Ask {
        Ask { align: 1 << self.order, ..Ask::new(self.pages) }
    }

    pub(crate) fn fit(self) -> Fit {
        self.ask().fit()
    }
}

/// Where a walk ends.
pub(crate) struct Walk {
    /// The lowest place, if there is one.
    pub(crate) start: Option<u64>,
    /// Ranges tried: all that are large enough, as if those that are not were skipped at no cost.
    pub(crate) tried: u64,
}

/// Searches first fit with the size of each range known, and nothing else.
pub(crate) fn walk(ranges: &[PageRange], request: Request) -> Walk {
    // A mask and no division: this runs a billion times.
    let below = (1 << request.order) - 1;
    let mut tried = 0;
    for range in ranges.iter().filter(|range| range.len() >= request.pages) {
        tried += 1;
        let start = (range.start() + below) & !below;
        if start + request.pages <= range.end() {
            return Walk { start: Some(start), tried };
        }
    }
    Walk { start: None, tried }
}
