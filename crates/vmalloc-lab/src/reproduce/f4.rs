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
use crate::lock::{self, NeverSleep, Waits, wakeups};
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
const WARM_UP: u64 = 4;
/// The least by which the worst case fell.
const BAR: f64 = 4.0;
const PUBLISHED: &str = "1177–2886 → 284–321 µs, 4–9×";

fn rounds(effort: Effort) -> usize {
    effort.choose(3, 7)
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
    let mut rounds: Vec<Vec<Shown>> = Vec::new();
    for _ in 0..self::rounds(effort) {
        let measure = |name| {
            let shown = watch(name, &setup, purges(effort));
            progress.step();
            shown
        };
        rounds.push(DESIGNS.into_iter().map(measure).collect());
    }
    let middle = |index: usize, of: Part| median(rounds.iter().map(|round| of(&round[index])).collect());
    let least =
        |index: usize, of: Part| rounds.iter().map(|round| of(&round[index])).fold(f64::INFINITY, f64::min);
    let mut claims = Vec::new();
    for (before, after) in [(0, 1), (2, 3), (2, 4), (2, 6)] {
        let published = if after == 6 { "(ours)" } else { PUBLISHED };
        let of: [(&str, Part); 2] =
            [("worst wake-up", |it| it.worst_wake_up), ("worst allocation", |it| it.worst_allocation)];
        for (what, of) in of {
            let pair = Pair { before: middle(before, of), after: middle(after, of), unit: "µs" };
            let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
            claims.push(Claim::of_times(what, published, pair, Unit::Times, Some(BAR)));
        }
    }
    let row = |index: usize| {
        let cells = [
            middle(index, |it| it.worst_wake_up),
            least(index, |it| it.worst_wake_up),
            middle(index, |it| it.mean_wake_up),
            middle(index, |it| it.worst_allocation),
            least(index, |it| it.worst_allocation),
            middle(index, |it| it.pairs),
            middle(index, |it| it.longest_hold),
        ];
        std::iter::once(DESIGNS[index].as_str().to_owned()).chain(cells.map(figure)).collect()
    };
    let head = [
        "µs",
        "worst wake-up",
        "(best run)",
        "mean",
        "worst allocation",
        "(best run)",
        "million pairs/s",
        "longest hold, areas",
    ];
    let title = "Worst of the median run, and of the best one";
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

/// Runs one thread for the wake-ups, and one on each CPU for the allocations.
fn watch(name: Name, setup: &Setup, purges: u64) -> Shown {
    let ((late, pairs), longest_hold) =
        crew(name, setup, 1, |design, each| wake_ups(design, each * purges)).remove(0);
    let worst_of_all =
        crew(name, setup, crate::cpu::count(), |design, each| worst_allocation(design, each * purges));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        worst_allocation: worst_of_all.into_iter().map(|(worst, _)| worst).max().map_or(0.0, micros),
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
    for _ in 0..count {
        pair(design);
        wakeups::poll();
    }
    (wakeups::disarm(), count as f64 / (lock::thread_time() - start).as_secs_f64() / 1e6)
}

fn pair(design: &dyn Design) {
    let start = design.alloc(&guarded(PAGES)).expect("space");
    design.free(start).expect("an area");
}

/// The longest that an allocation takes during so many pairs: what its thread ran, and what it waited for spin locks besides, running or not.
fn worst_allocation(design: &dyn Design, count: u64) -> Duration {
    // Waits are told apart from running while the clock is armed; here it never fires.
    wakeups::arm(Duration::MAX / 4);
    let mut worst = Duration::ZERO;
    for _ in 0..count {
        let before = (lock::thread_time(), lock::waits());
        let start = design.alloc(&guarded(PAGES)).expect("space");
        worst = worst.max(taken(before, (lock::thread_time(), lock::waits())));
        design.free(start).expect("an area");
    }
    wakeups::disarm();
    worst
}

fn taken(before: (Duration, Waits), after: (Duration, Waits)) -> Duration {
    let waited = after.1.nanoseconds - before.1.nanoseconds;
    let ran_waiting = after.1.ran - before.1.ran;
    (after.0 - before.0 + Duration::from_nanos(waited)).saturating_sub(Duration::from_nanos(ran_waiting))
}

const NOTES: [&str; 3] = [
    "8 KiB buffers with guard pages. The threshold is such that a purge of the tree under one lock lasts 2 ms, as purges did on the machine of the publication; \
     with the field's threshold it would last no longer than this machine's own delays. Purges are run by the frees that reach it.",
    "Wake-ups: one thread. A program can be preempted with a lock held, a kernel that spins can not: a timer of the thread's own fires every 50 µs that \
     it runs, and is answered as soon as it holds no spin lock. Locks that sleep (purges of nodes and of ours have one) delay no wake-up.",
    "Allocations: a thread for each CPU; what a thread ran and waited for spin locks. Medians of the runs, in each of which the worst counts. When the machine \
     takes the CPU from a thread that holds a lock, others wait for that, too: on a busy machine allocations show little else.",
];
