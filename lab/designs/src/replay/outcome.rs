//! The outcome of a replay.

use super::measure::Latency;
use super::script::Script;
use crate::designs::Name;
use crate::lock::Waits;
use crate::times::clock_ns;
use serde::Serialize;
use std::time::Duration;

/// Complaints that are kept in words.
const KEPT: usize = 10;

/// The outcome of a script on a design.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Outcome {
    /// Which design.
    pub design: &'static str,
    /// Calls in all.
    pub calls: u64,
    /// All calls in a row, in nanoseconds.
    pub total_ns: u64,
    /// That, for each call.
    pub ns_per_call: f64,
    /// Each allocation by itself.
    pub alloc: Latency,
    /// Each free by itself.
    pub free: Latency,
    /// The time of one look at the clock, which is part of each call above.
    pub clock_ns: u64,
    /// Allocations that were refused.
    pub refused: u64,
    /// Requests that a search missed although there was room.
    pub missed_fits: u64,
    /// Purges that found something.
    pub purges: u64,
    /// The most areas that were given back under one hold of a lock that allocations take.
    pub longest_hold_areas: u64,
    /// The most lazy pages in any sample, or at the end where nothing is sampled.
    pub peak_lazy_pages: u64,
    /// Allocations by where they came from; `None` where a design keeps nothing for reuse.
    pub hits: Option<Hits>,
    /// Locks taken in the row of calls, and waits for them.
    pub waits: Waits,
    /// Each design by itself.
    pub windows: Vec<WindowOutcome>,
    /// The first faults that were found.
    pub complaints: Vec<String>,
}

/// Allocations of the first million calls, in all windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Hits {
    /// All that were not refused.
    pub allocs: u64,
    /// Those that took nothing from the free ranges, but an area kept for reuse.
    pub kept: u64,
}

impl Hits {
    /// Returns the hundredths of all allocations that were hits.
    #[must_use]
    pub fn percent(&self) -> f64 {
        100.0 * self.kept as f64 / self.allocs.max(1) as f64
    }
}

/// One window of the trace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WindowOutcome {
    /// Its first page.
    pub start: u64,
    /// The page behind its last.
    pub end: u64,
    /// The peak span of the areas as the trace placed them; `None` where it names no windows.
    pub traced_span_pages: Option<u64>,
    /// The most pages from the start of the lowest busy area to the end of the highest.
    pub peak_span_pages: u64,
    /// The most pages that were busy.
    pub peak_busy_pages: u64,
    /// The most areas that were busy.
    pub peak_busy_areas: u64,
    /// The state over time.
    pub samples: Vec<Sample>,
}

impl WindowOutcome {
    /// Returns the peak span over that in the trace, where that is known.
    #[must_use]
    pub fn span_ratio(&self) -> Option<f64> {
        let traced = self.traced_span_pages.filter(|&pages| pages != 0)?;
        Some(self.peak_span_pages as f64 / traced as f64)
    }
}

/// A design at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Sample {
    /// Behind so many calls.
    pub calls: u64,
    /// Pages of busy areas.
    pub busy_pages: u64,
    /// Pages from the start of the lowest busy area to the end of the highest.
    pub span_pages: u64,
    /// Pages freed and not given back.
    pub lazy_pages: u64,
    /// Pages kept for requests of their size.
    pub pooled_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
}

impl Outcome {
    pub(super) fn new(design: Name, script: &Script) -> Self {
        let window = |(window, &traced): (&vmalloc::PageRange, &Option<u64>)| WindowOutcome {
            start: window.start(),
            end: window.end(),
            traced_span_pages: traced,
            ..WindowOutcome::default()
        };
        Self {
            design: design.as_str(),
            calls: script.calls(),
            clock_ns: clock_ns(),
            windows: script.windows().iter().zip(&script.placed).map(window).collect(),
            ..Self::default()
        }
    }

    /// The window with the most pages: of a kernel, that of most areas.
    #[must_use]
    pub fn main_window(&self) -> Option<&WindowOutcome> {
        self.windows.iter().max_by_key(|window| window.end - window.start)
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.total_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.ns_per_call = self.total_ns as f64 / self.calls.max(1) as f64;
    }

    pub(super) fn complain(&mut self, complaint: String) {
        if self.complaints.len() < KEPT {
            self.complaints.push(complaint);
        }
    }

    /// Returns true if no fault was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.complaints.is_empty()
    }
}
