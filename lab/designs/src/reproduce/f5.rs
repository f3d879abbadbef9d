//! F5: a node for each CPU, with pools, before the one tree (2024).
//!
//! Real CPUs show it and judge nothing: how a lock is waited for depends on how many there are, and
//! on what else they do. The machine of virtual CPUs judges it (`cargo xtask cores`).

use super::measure::{Crowd, medians, rounds, shuffled};
use super::{Claim, Effort, Figure, Outcome, Progress, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::table::figure;
use crate::workload::{CASES, Size};

const DESIGNS: [Name; 4] = [Name::Augmented, Name::Nodes, Name::Vmalloc, Name::VmallocCached];
const THREADS: [usize; 3] = [2, 8, 64];
/// CPUs of the machine of the publication, and so nodes.
const CPUS: usize = 32;
/// `run_test_mask=7`: the first three.
const MASK: usize = 3;

const SHARE: &str = "93.07 → 16.51 %, 5.6×";
const TIME: &str = "651 → 51.3 s, 12× (32 cores)";

fn least_rounds(effort: Effort) -> usize {
    effort.choose(1, 3)
}

/// Divides the same work among all threads, whatever their number.
fn size(effort: Effort, threads: usize) -> Size {
    let threads = threads as u64;
    Size::loops(effort.choose(768_000, 2_560_000) / threads).held_by(threads * 4)
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * THREADS.len() * least_rounds(effort)) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::with_cpus(CPUS);
    let measure = |index: usize| {
        let threads = THREADS[index / DESIGNS.len()];
        let name = DESIGNS[index % DESIGNS.len()];
        shuffled(name, &setup, &CASES[..MASK], size(effort, threads), threads)
    };
    let runs = Runs(rounds(THREADS.len() * DESIGNS.len(), least_rounds(effort), progress, measure));
    let mut outcome = Outcome::new(Figure::F5, effort, runs.all_claims(), vec![runs.table()], &NOTES);
    outcome.notes.push(of_this_machine());
    outcome
}

/// All rounds: in each, every design with every number of threads.
struct Runs(Vec<Vec<Crowd>>);

impl Runs {
    fn middle(&self, threads: usize, design: usize, of: fn(&Crowd) -> f64) -> f64 {
        medians(&self.0, of)[threads * DESIGNS.len() + design]
    }

    fn all_claims(&self) -> Vec<Claim> {
        let pairs = (0..THREADS.len()).flat_map(|threads| [(threads, 1), (threads, 2)]);
        pairs.flat_map(|(threads, after)| self.claims(threads, after)).collect()
    }

    /// Share and time of that number of threads, from the first design to `after`.
    fn claims(&self, threads: usize, after: usize) -> [Claim; 2] {
        let published = |text: &'static str| match (THREADS[threads], after) {
            (64, 1) => text,
            (64, _) => "(ours)",
            _ => "–",
        };
        let names = [0, after].map(|design| DESIGNS[design].as_str()).join(" → ");
        let shown = |what, published, of, unit| {
            let pair = [0, after].map(|design| self.middle(threads, design, of));
            let what = format!("{} threads, {names}: {what}", THREADS[threads]);
            Claim::of(what, published, pair, unit, Unit::Times, None)
        };
        [
            shown("waiting for locks", published(SHARE), Crowd::waited_percent, "% of time waiting"),
            shown("time", published(TIME), |crowd| crowd.seconds, "s"),
        ]
    }

    fn table(&self) -> Table {
        let columns: [fn(&Crowd) -> f64; 4] = [
            |crowd| crowd.seconds,
            Crowd::waited_percent,
            |crowd| 100.0 * crowd.waits.waited as f64 / crowd.waits.locks.max(1) as f64,
            |crowd| crowd.waits.locks as f64 / 1e6,
        ];
        let row = |(threads, design): (usize, usize)| {
            let name = format!("{} threads, {}", THREADS[threads], DESIGNS[design].as_str());
            let cells = columns.map(|of| figure(self.middle(threads, design, of)));
            std::iter::once(name).chain(cells).collect()
        };
        let all =
            (0..THREADS.len()).flat_map(|threads| (0..DESIGNS.len()).map(move |design| (threads, design)));
        let head = ["", "seconds", "% of time waiting", "% of locks waited for", "million locks"];
        Table::new("Medians; the same work in all for each number of threads", &head, all.map(row).collect())
    }
}

fn of_this_machine() -> String {
    let cpus = crate::cpu::count();
    format!(
        "This machine has {cpus} CPUs. So {cpus} threads run at a time, whatever their number, and a lock for all can cost no more than a factor of {cpus} here, \
         plus what sleeping and waking cost; on the 32 cores of the publication it cost a factor of 12. What {cpus} CPUs can show is how much of \
         their time threads that run spend waiting for each other: that is counted at every lock, from the first failed try to the moment it is had, \
         not sampled. What they can't show is how that grows with CPUs, and what it costs when caches are far apart."
    )
}

const NOTES: [&str; 4] = [
    "run_test_mask=7: fix_size, full_fit and long_busy_list, by each thread in an order of its own, on a space that is lived in. The share is of the time \
     that threads ran.",
    "A kernel's threads never lose the CPU with a spin lock held. A program's do, and then others wait for one that does not run; so where there are more threads than \
     CPUs, each lets others run every 300 µs, while it holds none.",
    "Designs with nodes have 32, one for each CPU of the machine of the publication; threads play these CPUs in turn.",
    "Nothing here has a bar. `cargo xtask cores f5 --cpus 32` runs the same code on 32 virtual CPUs, and `cargo xtask cores --check` judges what it takes; with \
     `--cpus 2` it runs what 2 threads run here, so that the two can be compared.",
];
