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
use crate::lock::{self, Waits, wakeups};
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
/// From one wake-up to the next: many in the time of a purge, so that none is missed.
const PERIOD: Duration = Duration::from_micros(50);
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
    worst_allocation: f64,
    pairs: f64,
    longest_hold: f64,
}

type Part = fn(&Shown) -> f64;

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = calibrated();
    let mut rounds: Vec<Vec<Shown>> = Vec::new();
    for _ in 0..self::rounds(effort) {
        let measure = |name| {
            let shown = watch(name, &setup, run_time(effort));
            progress.step();
            shown
        };
        rounds.push(DESIGNS.into_iter().map(measure).collect());
    }
    let middle = |index: usize, of: Part| median(rounds.iter().map(|round| of(&round[index])).collect());
    // What else runs on this machine makes a worst case worse, never better: the best of the rounds is the nearest to the design's.
    let least =
        |index: usize, of: Part| rounds.iter().map(|round| of(&round[index])).fold(f64::INFINITY, f64::min);
    let mut claims = Vec::new();
    for (before, after) in [(0, 1), (2, 3), (2, 4), (2, 6)] {
        let published = if after == 6 { "(ours)" } else { PUBLISHED };
        let of: [(&str, Part); 2] =
            [("worst wake-up", |it| it.worst_wake_up), ("worst allocation", |it| it.worst_allocation)];
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
            least(index, |it| it.worst_allocation),
            middle(index, |it| it.worst_allocation),
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
        "worst allocation",
        "(median run)",
        "million pairs/s",
        "longest hold, areas",
    ];
    let title = "Worst of the best run, and of the median one";
    let table = Table::new(title, &head, (0..DESIGNS.len()).map(row).collect());
    Outcome::new(Figure::F4, effort, claims, vec![table], &NOTES)
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

/// All CPUs allocate and free buffers for `time`.
fn watch(name: Name, setup: &Setup, time: Duration) -> Shown {
    let design = name.build(setup);
    let crew = std::thread::scope(|scope| {
        let work = || worker(&*design, time);
        let crew: Vec<_> = (0..crate::cpu::count()).map(|_| scope.spawn(work)).collect();
        crew.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let worst = |of: Part| crew.iter().map(of).fold(0.0, f64::max);
    Shown {
        worst_wake_up: worst(|it| it.worst_wake_up),
        mean_wake_up: crew.iter().map(|it| it.mean_wake_up).sum::<f64>() / crew.len() as f64,
        worst_allocation: worst(|it| it.worst_allocation),
        pairs: crew.iter().map(|it| it.pairs).sum(),
        longest_hold: design.counts().longest_hold_areas as f64,
    }
}

fn worker(design: &dyn Design, time: Duration) -> Shown {
    // Lists have grown to what a purge takes when the measurement begins.
    pairs(design, time / 2, |_| {});
    wakeups::arm(PERIOD);
    let mut worst = Duration::ZERO;
    let count = pairs(design, time, |allocation| worst = worst.max(allocation));
    let late = wakeups::disarm();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        worst_allocation: micros(worst),
        pairs: count as f64 / time.as_secs_f64() / 1e6,
        longest_hold: 0.0,
    }
}

/// Allocates and frees buffers for `time`, and tells of each allocation; how many.
fn pairs(design: &dyn Design, time: Duration, mut tell: impl FnMut(Duration)) -> u64 {
    let (end, mut count) = (Instant::now() + time, 0);
    while Instant::now() < end {
        let before = (lock::thread_time(), lock::waits());
        let start = design.alloc(&guarded(PAGES)).expect("space");
        tell(taken(before, (lock::thread_time(), lock::waits())));
        design.free(start).expect("an area");
        wakeups::poll();
        count += 1;
    }
    count
}

/// What the thread ran, and what it waited for locks besides, running or not.
fn taken(before: (Duration, Waits), after: (Duration, Waits)) -> Duration {
    let waited = after.1.nanoseconds - before.1.nanoseconds;
    let ran_waiting = after.1.ran - before.1.ran;
    (after.0 - before.0 + Duration::from_nanos(waited)).saturating_sub(Duration::from_nanos(ran_waiting))
}

const NOTES: [&str; 3] = [
    "8 KiB buffers with guard pages, a thread for each CPU. The threshold is such that a purge of the tree under one lock lasts 2 ms, as purges did on the machine of \
     the publication; with the field's threshold it would last no longer than this machine's own delays. Purges are run by the frees that reach it. \
     An allocation's time is what its thread ran and waited for spin locks.",
    "A program can be preempted with a lock held, a kernel that spins can not: a timer of each thread's own fires every 50 µs that it runs, and \
     is answered as soon as the thread holds no spin lock and waits for none. Locks that sleep (purges of nodes and of ours have one) delay \
     no wake-up.",
    "The worst of a run is also what the machine was doing besides (a holder that does not run is waited for); claims are about the best of \
     the runs, in which that is least.",
];
