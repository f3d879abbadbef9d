//! F4: a purge that holds no lock from its beginning to its end (2016).
//!
//! ```text
//!   P0   purge ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  one spin lock: nothing else runs on this CPU, others wait for an area
//!        timer        │······· late ·········►│ wake-up
//!   P1   purge ▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░  taken and dropped for each area
//!        timer        │►│ wake-up
//! ```

use super::measure::median;
use super::{Claim, Effort, Figure, Outcome, Pair, Progress, Table, Unit, figure};
use crate::design::{Design, Setup};
use crate::designs::Name;
use crate::lock::{self, NeverSleep, wakeups};
use crate::workload::guarded;
use std::time::Duration;

const DESIGNS: [Name; 7] = [
    Name::BusyListP0,
    Name::BusyList,
    Name::AugmentedP0,
    Name::AugmentedP1,
    Name::Augmented,
    Name::Nodes,
    Name::Vmalloc,
];

/// Pages of a buffer: 8 KiB.
const PAGES: u64 = 2;
/// From one wake-up to the next: many in the time of a purge, so that none is missed.
const PERIOD: Duration = Duration::from_micros(50);
/// Purges before the measurement.
const WARM_UP: u64 = 1;
/// Runs in which allocations are measured, each of two purges: on a shared machine some milliseconds are taken from a thread now and then, which
/// most short runs are spared.
const SHORT_RUNS: usize = 3;
/// The least by which the worst case fell.
const BAR: f64 = 4.0;
const PUBLISHED: &str = "1177–2886 → 284–321 µs, 4–9×";

fn rounds(effort: Effort) -> usize {
    effort.choose(3, 5)
}

/// Purges of a run.
fn purges(effort: Effort) -> u64 {
    effort.choose(3, 10)
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * rounds(effort)) as u64
}

/// What a run on one design showed, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    worst_wake_up: f64,
    mean_wake_up: f64,
    worst_allocation: f64,
    pairs: f64,
    longest_hold: f64,
}

type Part = fn(&Shown) -> f64;

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let _as_kernels_do = NeverSleep::new();
    let setup = calibrated();
    let measure = |name| {
        let shown = watch(name, &setup, purges(effort));
        progress.step();
        shown
    };
    let runs = Runs((0..rounds(effort)).map(|_| DESIGNS.map(measure)).collect());
    let claims = COMPARED.into_iter().flat_map(|(before, after)| runs.claims(before, after));
    Outcome::new(Figure::F4, effort, claims.collect(), vec![runs.table()], &NOTES)
}

/// Which designs are compared: P0 with P1 over the busy list, with P1 and P2 over the tree, and with ours.
const COMPARED: [(usize, usize); 4] = [(0, 1), (2, 3), (2, 4), (2, 6)];

/// All rounds.
struct Runs(Vec<[Shown; DESIGNS.len()]>);

impl Runs {
    fn all(&self, design: usize, of: Part) -> impl Iterator<Item = f64> {
        self.0.iter().map(move |round| of(&round[design]))
    }

    fn middle(&self, design: usize, of: Part) -> f64 {
        median(self.all(design, of).collect())
    }

    /// What else the machine does makes a worst case worse, never better: the least of the runs is the nearest to the design's.
    fn least(&self, design: usize, of: Part) -> f64 {
        self.all(design, of).fold(f64::INFINITY, f64::min)
    }

    fn claims(&self, before: usize, after: usize) -> [Claim; 2] {
        let published = if DESIGNS[after] == Name::Vmalloc { "(ours)" } else { PUBLISHED };
        // The worst of the busy list is its search.
        let bar = (DESIGNS[after] != Name::BusyList).then_some(BAR);
        let claim = |what, of: Part, bar| {
            let pair = Pair { before: self.least(before, of), after: self.least(after, of), unit: "µs" };
            let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
            Claim::of_times(what, published, pair, Unit::Times, bar)
        };
        [
            claim("worst wake-up", |it| it.worst_wake_up, Some(BAR)),
            claim("worst allocation", |it| it.worst_allocation, bar),
        ]
    }

    fn table(&self) -> Table {
        let row = |design: usize| {
            let cells = [
                self.middle(design, |it| it.worst_wake_up),
                self.least(design, |it| it.worst_wake_up),
                self.middle(design, |it| it.mean_wake_up),
                self.middle(design, |it| it.worst_allocation),
                self.least(design, |it| it.worst_allocation),
                self.middle(design, |it| it.pairs),
                self.middle(design, |it| it.longest_hold),
            ];
            std::iter::once(DESIGNS[design].as_str().to_owned()).chain(cells.map(figure)).collect()
        };
        let head = [
            "µs",
            "worst wake-up",
            "(least)",
            "mean",
            "worst allocation",
            "(least)",
            "million pairs/s",
            "longest hold, areas",
        ];
        let title = "The worst of a run: medians of the runs, and the least";
        Table::new(title, &head, (0..DESIGNS.len()).map(row).collect())
    }
}

/// How long a purge under one lock is to last: what was seen there.
const LENGTH: Duration = Duration::from_millis(2);

/// The set-up in which it does. At the field's threshold it lasts some 50 µs here, for an area goes back in a twentieth of what it took then, and
/// the machine's own delays are as long.
fn calibrated() -> Setup {
    let areas = 100_000;
    let setup = Setup::of_this_machine().lazy_max(2 * areas * (PAGES + 1));
    let design = Name::AugmentedP0.build(&setup);
    for _ in 0..areas {
        let start = design.alloc(&guarded(PAGES)).expect("space");
        design.free(start).expect("an area");
    }
    let start = lock::thread_time();
    design.settle();
    let each = (lock::thread_time() - start).as_secs_f64() / areas as f64;
    setup.lazy_max((LENGTH.as_secs_f64() / each) as u64 * (PAGES + 1))
}

/// Runs one thread for the wake-ups, and one on each CPU for the allocations: short runs, of which the median counts.
fn watch(name: Name, setup: &Setup, purges: u64) -> Shown {
    let wake_ups = |design: &dyn Design, each| wake_ups(design, each * purges);
    let ((late, pairs), longest_hold) = crew(name, setup, 1, wake_ups).remove(0);
    let worst = |_| {
        let all = crew(name, setup, crate::cpu::count(), |design, each| worst_allocation(design, 2 * each));
        all.into_iter().map(|(worst, _)| worst.as_secs_f64()).fold(0.0, f64::max)
    };
    let worst_allocation = median((0..SHORT_RUNS).map(worst).collect());
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        worst_allocation: worst_allocation * 1e6,
        pairs,
        longest_hold: longest_hold as f64,
    }
}

/// What so many threads saw on a new design, each of which is told how many pairs are its share of a purge; and the most areas under one hold.
fn crew<R: Send>(
    name: Name,
    setup: &Setup,
    threads: usize,
    work: impl Fn(&dyn Design, u64) -> R + Sync,
) -> Vec<(R, u64)> {
    let design = name.build(setup);
    let each = setup.lazy_max_pages / (PAGES + 1) / threads as u64;
    std::thread::scope(|scope| {
        let work = || {
            // Lists have grown to what purges take when the measurement begins.
            (0..WARM_UP * each).for_each(|_| pair(&*design));
            work(&*design, each)
        };
        let crew: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let seen = crew.into_iter().map(|thread| thread.join().expect("no panic"));
        seen.map(|it| (it, design.counts().longest_hold_areas)).collect()
    })
}

/// How late wake-ups are during so many pairs, and millions of pairs a second.
fn wake_ups(design: &dyn Design, count: u64) -> (Vec<Duration>, f64) {
    let start = lock::thread_time();
    wakeups::arm(PERIOD);
    (0..count).for_each(|_| pair(design));
    (wakeups::disarm(), count as f64 / (lock::thread_time() - start).as_secs_f64() / 1e6)
}

fn pair(design: &dyn Design) {
    let start = design.alloc(&guarded(PAGES)).expect("space");
    design.free(start).expect("an area");
}

/// The longest that an allocation takes during so many pairs, by the time that its thread runs: who waits for a lock here spins.
fn worst_allocation(design: &dyn Design, count: u64) -> Duration {
    let mut worst = Duration::ZERO;
    for _ in 0..count {
        let before = lock::thread_time();
        let start = design.alloc(&guarded(PAGES)).expect("space");
        worst = worst.max(lock::thread_time() - before);
        design.free(start).expect("an area");
    }
    worst
}

const NOTES: [&str; 3] = [
    "8 KiB buffers with guard pages. The threshold is such that a purge of the tree under one lock lasts 2 ms, as purges did on the machine of the publication; \
     with the field's threshold it would last no longer than this machine's own delays. Purges are run by the frees that reach it.",
    "Wake-ups: one thread. A program can be preempted with a lock held, a kernel that spins can not: a timer of the thread's own fires every 50 µs that \
     it runs, and is answered as soon as it holds no spin lock. Locks that sleep (purges of nodes and of ours have one) delay no wake-up.",
    "Allocations: a thread for each CPU; the time that a thread runs, which it also does while it waits, in short runs of two purges. The worst of the busy list is its search \
     over what is lazy, not a lock. When the machine takes the CPU from a thread that holds a lock, who waits for that runs on: claims are about the least \
     of the worst of several runs, before and after.",
];
