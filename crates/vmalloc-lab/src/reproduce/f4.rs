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
use crate::lock::wakeups;
use crate::workload::guarded;
use std::time::{Duration, Instant};

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
/// cyclictest's usual period.
const PERIOD: Duration = Duration::from_millis(1);
/// The least by which the worst case fell.
const BAR: f64 = 4.0;
const PUBLISHED: &str = "1177–2886 → 284–321 µs, 4–9×";

fn rounds(effort: Effort) -> usize {
    effort.choose(3, 7)
}

fn run_time(effort: Effort) -> Duration {
    Duration::from_millis(effort.choose(500, 2_000))
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * rounds(effort)) as u64
}

/// What a run on one design showed, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    worst_wake_up: f64,
    mean_wake_up: f64,
    worst_stall: f64,
    pairs: f64,
    longest_hold: f64,
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let mut rounds: Vec<Vec<Shown>> = Vec::new();
    for _ in 0..self::rounds(effort) {
        let measure = |name| {
            let shown = watch(name, run_time(effort));
            progress.step();
            shown
        };
        rounds.push(DESIGNS.into_iter().map(measure).collect());
    }
    let middle = |index: usize, of: fn(&Shown) -> f64| median(rounds.iter().map(|round| of(&round[index])).collect());
    // What else runs on this machine makes a worst case worse, never better: the best of the rounds is the nearest to the design's.
    let least = |index: usize, of: fn(&Shown) -> f64| {
        rounds.iter().map(|round| of(&round[index])).fold(f64::INFINITY, f64::min)
    };
    let mut claims = Vec::new();
    for (before, after) in [(0, 1), (2, 3), (2, 4), (2, 6)] {
        let published = if after == 6 { "(ours)" } else { PUBLISHED };
        let of: [(&str, fn(&Shown) -> f64); 2] =
            [("worst wake-up", |it| it.worst_wake_up), ("worst allocation or free", |it| it.worst_stall)];
        for (what, of) in of {
            let pair = Pair { before: least(before, of), after: least(after, of), unit: "µs" };
            let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
            claims.push(Claim::of_times(what, published, pair, Unit::Times, Some(BAR)));
        }
    }
    let row = |index: usize| {
        let cells = [
            least(index, |it| it.worst_wake_up),
            middle(index, |it| it.worst_wake_up),
            middle(index, |it| it.mean_wake_up),
            least(index, |it| it.worst_stall),
            middle(index, |it| it.worst_stall),
            middle(index, |it| it.pairs),
            middle(index, |it| it.longest_hold),
        ];
        std::iter::once(DESIGNS[index].as_str().to_owned()).chain(cells.map(figure)).collect()
    };
    let head = [
        "µs",
        "worst wake-up",
        "(median run)",
        "mean",
        "worst call",
        "(median run)",
        "million pairs/s",
        "longest hold, areas",
    ];
    let title = "Worst of the best run, and of the median one";
    let table = Table::new(title, &head, (0..DESIGNS.len()).map(row).collect());
    Outcome::new(Figure::F4, effort, claims, vec![table], &NOTES)
}

/// All CPUs allocate and free buffers for `time`.
fn watch(name: Name, time: Duration) -> Shown {
    let design = name.build(&Setup::of_this_machine());
    let crew = std::thread::scope(|scope| {
        let work = || worker(&*design, time);
        let crew: Vec<_> = (0..crate::cpu::count()).map(|_| scope.spawn(work)).collect();
        crew.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let worst = |of: fn(&Shown) -> f64| crew.iter().map(of).fold(0.0, f64::max);
    Shown {
        worst_wake_up: worst(|it| it.worst_wake_up),
        mean_wake_up: crew.iter().map(|it| it.mean_wake_up).sum::<f64>() / crew.len() as f64,
        worst_stall: worst(|it| it.worst_stall),
        pairs: crew.iter().map(|it| it.pairs).sum(),
        longest_hold: design.counts().longest_hold_areas as f64,
    }
}

fn worker(design: &dyn Design, time: Duration) -> Shown {
    let end = Instant::now() + time;
    let (mut worst, mut pairs) = (Duration::ZERO, 0u64);
    wakeups::arm(PERIOD);
    let mut now = Instant::now();
    while now < end {
        let start = design.alloc(&guarded(PAGES)).expect("space");
        design.free(start).expect("an area");
        let done = Instant::now();
        worst = worst.max(done - now);
        pairs += 1;
        wakeups::poll();
        now = Instant::now();
    }
    let late = wakeups::disarm();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        worst_stall: micros(worst),
        pairs: pairs as f64 / time.as_secs_f64() / 1e6,
        longest_hold: 0.0,
    }
}

const NOTES: [&str; 4] = [
    "8 KiB buffers with guard pages, a thread for each CPU, the field's threshold. A call: an allocation and the free of it.",
    "A program can be preempted with a lock held, a kernel that spins can not: a timer of each thread's own fires each millisecond and is \
     answered as soon as the thread holds no spin lock. Locks that sleep (purges of nodes and of ours have one) delay no wake-up.",
    "The worst of a run is also what the machine was doing besides; claims are about the best of the runs, in which that is least.",
    "P0 and P1 over the busy list of their time; P0, P1 and P2 over the tree; nodes and ours as they are.",
];
