//! F5: a node for each CPU, with pools, before the one tree (2024).

use super::measure::{Crowd, median, shuffled};
use super::{Claim, Effort, Figure, Outcome, Pair, Progress, Table, Unit, figure};
use crate::design::Setup;
use crate::designs::Name;
use crate::workload::{CASES, Size};

const DESIGNS: [Name; 4] = [Name::Augmented, Name::Nodes, Name::Vmalloc, Name::VmallocRetained];
const THREADS: [usize; 3] = [2, 8, 64];
/// `run_test_mask=7`: the first three.
const MASK: usize = 3;

/// What the share of time in the contended lock fell by: 93.07 % → 16.51 %.
const SHARE_BAR: f64 = 5.6;
const SHARE: &str = "93.07 → 16.51 %, 5.6×";
const TIME: &str = "651 → 51.3 s, 12× (32 cores)";

fn rounds(effort: Effort) -> usize {
    effort.choose(1, 3)
}

/// The same work in all, whatever the number of threads.
fn size(effort: Effort, threads: usize) -> Size {
    let threads = threads as u64;
    Size::loops(effort.choose(64_000, 1_280_000) / threads).held_by(threads * effort.choose(4, 1))
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * THREADS.len() * rounds(effort)) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::of_this_machine();
    let mut runs: Vec<Vec<Crowd>> = Vec::new();
    for _ in 0..rounds(effort) {
        let of = |threads: usize| DESIGNS.map(|name| (name, threads));
        let measure = |(name, threads)| {
            let crowd = shuffled(name, &setup, &CASES[..MASK], size(effort, threads), threads);
            progress.step();
            crowd
        };
        runs.push(THREADS.into_iter().flat_map(of).map(measure).collect());
    }
    let middle = |threads: usize, design: usize, of: fn(&Crowd) -> f64| {
        median(runs.iter().map(|round| of(&round[threads * DESIGNS.len() + design])).collect())
    };
    let mut claims = Vec::new();
    for (nth, threads) in THREADS.into_iter().enumerate() {
        let pair = |after, of, unit| Pair { before: middle(nth, 0, of), after: middle(nth, after, of), unit };
        let name = |after: usize| {
            format!("{threads} threads, {} → {}", DESIGNS[0].as_str(), DESIGNS[after].as_str())
        };
        let many = threads == 64;
        for after in [1, 2] {
            let published = |text| {
                if !many {
                    "–"
                } else if after == 1 {
                    text
                } else {
                    "(ours)"
                }
            };
            let share = pair(after, Crowd::waited_percent, "% of time waiting");
            let what = format!("{}: waiting for locks", name(after));
            claims.push(Claim::of_times(
                what,
                published(SHARE),
                share,
                Unit::Times,
                many.then_some(SHARE_BAR),
            ));
            let time = pair(after, |crowd| crowd.seconds, "s");
            claims.push(Claim::of_times(
                format!("{}: time", name(after)),
                published(TIME),
                time,
                Unit::Times,
                None,
            ));
        }
    }
    let row = |(nth, design): (usize, usize)| {
        let cells = [
            middle(nth, design, |crowd| crowd.seconds),
            middle(nth, design, Crowd::waited_percent),
            middle(nth, design, |crowd| 100.0 * crowd.waits.waited as f64 / crowd.waits.locks.max(1) as f64),
            middle(nth, design, |crowd| crowd.waits.locks as f64 / 1e6),
        ];
        let name = format!("{} threads, {}", THREADS[nth], DESIGNS[design].as_str());
        std::iter::once(name).chain(cells.map(figure)).collect()
    };
    let all = (0..THREADS.len()).flat_map(|nth| (0..DESIGNS.len()).map(move |design| (nth, design)));
    let head = ["", "seconds", "% of time waiting", "% of locks waited for", "million locks"];
    let table =
        Table::new("Medians; the same work in all for each number of threads", &head, all.map(row).collect());
    let cpus = crate::cpu::count();
    let mut outcome = Outcome::new(Figure::F5, effort, claims, vec![table], &NOTES);
    outcome.notes.push(format!(
        "This machine has {cpus} CPUs, so {cpus} threads run at a time, whatever their number, and one lock can cost no more than a factor of \
         {cpus} here, plus what sleeping and waking cost; the published machine has 32 cores, and lost a factor of 12. What {cpus} CPUs can show \
         is how often, and for how long, threads wait for each other: waiting is counted at every lock, from the first failed try to the \
         moment it is had, not sampled. With more threads than CPUs that includes the time in which the holder, or who waits, does not run."
    ));
    outcome
}

const NOTES: [&str; 2] = [
    "run_test_mask=7: fix_size, full_fit and long_busy_list, by each thread in an order of its own. The share is of the time of all threads.",
    "The bar is on the share, which a machine with few CPUs can show; the time is shown beside it.",
];
