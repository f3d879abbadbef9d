//! F4: a purge that holds no lock from its beginning to its end (2016).
//!
//! ```text
//!   P0   purge ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  one spin lock: nothing else runs on this CPU, others wait for an area
//!        timer        │······· late ·········►│ wake-up
//!   P1   purge ▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░  taken and dropped for each area
//!        timer        │►│ wake-up
//! ```

use super::measure::{medians, rounds};
use super::{Claim, Effort, Figure, Outcome, Progress, Table, Unit};
use crate::clock::cpu_time;
use crate::design::{Design, Setup};
use crate::designs::Name;
use crate::lock::{NeverSleep, wakeups};
use crate::table::figure;
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
/// Buffers that are lazy when a purge begins. A purge of the tree under one lock lasts some
/// milliseconds then, as purges did on the machine of the publication; with Linux's threshold it
/// would last no longer than this machine's own delays.
const LAZY: u64 = 250_000;
/// From one wake-up to the next: many in the time of a purge, so that none is missed.
const PERIOD: Duration = Duration::from_micros(50);
/// Purges before the measurement: designs with lists have two of each, which take turns.
const WARM_UP: u64 = 2;
/// The least by which the worst case fell.
const BAR: f64 = 4.0;
const PUBLISHED: &str = "1177–2886 → 284–321 µs, 4–9×";

fn least_rounds(effort: Effort) -> usize {
    effort.choose(3, 5)
}

/// Purges of a run in which wake-ups are measured.
fn purges(effort: Effort) -> u64 {
    effort.choose(3, 10)
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * least_rounds(effort)) as u64
}

/// The results of a run on one design, in microseconds.
#[derive(Clone, Copy)]
struct Shown {
    worst_wake_up: f64,
    mean_wake_up: f64,
    pairs: f64,
    longest_hold: f64,
}

/// Which designs are compared: P0 with P1 over the busy list, with P1 and P2 over the tree, and
/// with ours.
const COMPARED: [(usize, usize); 4] = [(0, 1), (2, 3), (2, 4), (2, 6)];

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let _as_kernels_do = NeverSleep::new();
    let setup = Setup::of_this_machine().lazy_max(LAZY * (PAGES + 1));
    let watch = |design: usize| watch(DESIGNS[design], &setup, effort);
    let rounds = rounds(DESIGNS.len(), least_rounds(effort), progress, watch);
    // Other work of the machine makes a worst case worse, never better: the least is the nearest to
    // the design's.
    let least =
        |design: usize| rounds.iter().map(|round| round[design].worst_wake_up).fold(f64::INFINITY, f64::min);
    let hold = medians(&rounds, |shown| shown.longest_hold);
    let claims = COMPARED.into_iter().flat_map(|(before, after)| {
        let claim = |what: &str, [from, to]: [f64; 2], unit| {
            let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
            let published = if DESIGNS[after] == Name::Vmalloc { "(ours)" } else { PUBLISHED };
            Claim::of(what, published, [from, to], unit, Unit::Times, Some(BAR))
        };
        [
            claim("longest hold", [hold[before], hold[after]], "areas given back"),
            claim("worst wake-up", [least(before), least(after)], "µs"),
        ]
    });
    let claims = claims.collect();
    let columns = [
        medians(&rounds, |shown| shown.worst_wake_up),
        (0..DESIGNS.len()).map(least).collect(),
        medians(&rounds, |shown| shown.mean_wake_up),
        medians(&rounds, |shown| shown.pairs),
        hold,
    ];
    let row = |design: usize| {
        let cells = columns.iter().map(|column| figure(column[design]));
        std::iter::once(DESIGNS[design].as_str().to_owned()).chain(cells).collect()
    };
    let head = ["µs", "worst wake-up", "(least)", "mean", "million pairs/s", "longest hold, areas"];
    let title = "Wake-ups: the worst of a run, median of the runs and least";
    let table = Table::new(title, &head, (0..DESIGNS.len()).map(row).collect());
    Outcome::new(Figure::F4, effort, claims, vec![table], &NOTES)
}

/// Runs one thread for the wake-ups.
fn watch(name: Name, setup: &Setup, effort: Effort) -> Shown {
    let design = name.build(setup);
    // Lists have grown to what purges take when the measurement begins.
    (0..WARM_UP * LAZY).for_each(|_| pair(&*design));
    let (late, pairs) = wake_ups(&*design, purges(effort) * LAZY);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        pairs,
        longest_hold: design.counts().longest_hold_areas as f64,
    }
}

/// How late wake-ups are during so many pairs, and millions of pairs a second.
fn wake_ups(design: &dyn Design, count: u64) -> (Vec<Duration>, f64) {
    let start = cpu_time();
    wakeups::arm(PERIOD);
    (0..count).for_each(|_| pair(design));
    (wakeups::disarm(), count as f64 / (cpu_time() - start).as_secs_f64() / 1e6)
}

fn pair(design: &dyn Design) {
    let start = design.alloc(&guarded(PAGES)).expect("space");
    design.free(start).expect("an area");
}

const NOTES: [&str; 2] = [
    "8 KiB buffers with guard pages, of which 250,000 are lazy when a purge begins: as many are given back under one hold of the lock that allocations take, or \
     one by one. Purges are run by the frees that reach the threshold.",
    "Wake-ups: one thread. A program can be preempted with a lock held, a kernel that spins can not: a timer of the thread's own fires every 50 µs that \
     it runs, and is answered as soon as it holds no spin lock. Locks that sleep (purges of nodes and of ours have one) delay no wake-up. \
     Claims are about the least of the runs, before and after: what else the machine does makes a worst case worse, never better.",
];
