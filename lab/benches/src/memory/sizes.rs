//! Areas of all sizes: allocated, touched, freed; and arrays that come and go.

use super::Row;
use super::alone::{self, Load};
use crate::buffers::{self, Buffers, Ours, PAGE_BYTES, Scene, bounce};
use crate::rounds::{Limits, cpu_ns, medians};
use std::time::Duration;
use vmalloc_kit::stats::median;

/// Pages of the areas. The first ones are around 256 pages, from which on an area is in no node.
const PAGES: [usize; 9] = [3, 16, 100, 255, 256, 257, 1024, 4096, 16_384];

/// A window of an allocator that is alone.
const WINDOW: Duration = Duration::from_millis(60);

/// Measures the group.
pub fn run(limits: &Limits) -> Vec<Row> {
    PAGES
        .into_iter()
        .flat_map(|pages| {
            let mut rows = bounce_all(pages, limits);
            rows.extend(alone::run_tuned::<Bounce>(pages, limits.rounds));
            rows
        })
        .chain(cliffs(limits, Between::Purge))
        .chain(cliffs(limits, Between::Nothing))
        .collect()
}

/// The sizes that are searched for cliffs, and the turns of one window.
const LAST: usize = 1024;
const TURNS: usize = 4096;
/// Neighbours on either side through which the line is drawn.
const NEIGHBOURS: usize = 8;

/// The step between two sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    /// All that is cached is given back: each size has the budget for itself.
    Purge,
    /// Areas of all sizes before are cached. At 255 pages they are more than the budget of two
    /// CPUs.
    Nothing,
}

/// Measures every size up to 1,024 pages, and compares each with the line through its neighbours:
/// the median of those below, and of those above.
fn cliffs(limits: &Limits, between: Between) -> [Row; 2] {
    let mut ours: Ours<true> = Ours::build();
    let mut best = vec![f64::INFINITY; LAST + NEIGHBOURS + 1];
    for _ in 0..limits.rounds.max(5) {
        for (pages, best) in best.iter_mut().enumerate().skip(1) {
            let (turns, bytes) = (TURNS.div_ceil(pages), pages * PAGE_BYTES);
            if between == Between::Purge {
                ours.purge();
            }
            let mut play = |turns| bounce(&mut ours, bytes, bytes, turns);
            if between == Between::Purge {
                play(1);
            }
            let ns = cpu_ns(|| play(turns)) / turns as f64;
            *best = best.min(ns);
        }
    }
    let line = |pages: usize| {
        let (below, above) = (&best[pages - NEIGHBOURS..pages], &best[pages + 1..=pages + NEIGHBOURS]);
        (median(below) + median(above)) / 2.0
    };
    let ratio = |pages: &usize| best[*pages] / line(*pages);
    let worst = (NEIGHBOURS + 1..=LAST).max_by(|a, b| ratio(a).total_cmp(&ratio(b))).unwrap_or(LAST);
    let load = match between {
        Between::Purge => "highest over its neighbours, each size alone",
        Between::Nothing => "highest over its neighbours, all sizes in turn",
    };
    [
        Row::new(load, "vmalloc, caching", ratio(&worst), "times the line"),
        Row::new(load, "vmalloc, caching", worst as f64, "pages"),
    ]
}

/// Every allocator: allocate so many pages, write one byte a page, free.
fn bounce_all(pages: usize, limits: &Limits) -> Vec<Row> {
    let rows = buffers::run(("", Scene::Bounce(pages)), limits, &|_| true);
    rows.into_iter().map(|row| Row::new(load(pages), row.allocator, row.ns / 1e3, "µs")).collect()
}

fn load(pages: usize) -> String {
    format!("{} KiB", (pages * PAGE_BYTES) >> 10)
}

/// One size, by one allocator in a process of its own, in so many rounds.
pub(super) struct Bounce {
    pages: usize,
    rounds: usize,
}

impl Load for Bounce {
    const NAME: &'static str = "bounce";
    const UNITS: &'static [&'static str] = &["µs"];

    fn new(pages: usize, rounds: usize) -> Self {
        Self { pages, rounds }
    }

    fn title(&self) -> String {
        load(self.pages)
    }

    fn musts(&self) -> Vec<Option<f64>> {
        vec![None]
    }

    fn play<B: Buffers + 'static>(&self) -> Vec<f64> {
        let (mut buffers, bytes) = (B::build(), self.pages * PAGE_BYTES);
        let play = |iterations: usize| bounce(&mut buffers, bytes, bytes, iterations);
        let limits = Limits { rounds: self.rounds, window: WINDOW };
        let times = medians(&mut [Box::new(play) as Box<dyn FnMut(usize)>], &limits);
        vec![times[0] / 1e3]
    }
}
