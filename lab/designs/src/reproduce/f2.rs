//! F2: the largest free range below each node of a tree, instead of lists (merged series, 2019).

use super::measure::{column, medians, rounds, sequence_seconds, shuffled};
use super::{Claim, Clock, Effort, Figure, Measured, Outcome, Progress, Sample, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::stats::median;
use crate::table::figure;
use crate::workload::{CASES, Size};

const DESIGNS: [Name; 6] = Name::GENERATIONS;
/// Where it was published.
const AFTER: usize = 2;

/// The published gain of all tests in sequence, on the machine that gained less.
const BAR: f64 = 3.35;

fn least_rounds(effort: Effort) -> usize {
    effort.choose(1, 3)
}

fn sequence_size(effort: Effort) -> Size {
    effort.choose(Size::loops(10_000).held_by(4), Size::loops(20_000))
}

fn shuffled_size(effort: Effort) -> Size {
    effort.choose(Size::loops(5_000).held_by(8), Size::loops(20_000).held_by(2))
}

pub(super) fn steps(effort: Effort) -> u64 {
    (2 * DESIGNS.len() * least_rounds(effort)) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::of_this_machine();
    let mut by_case = vec![Vec::new(); DESIGNS.len()];
    let sequence = IN_SEQUENCE.measure(effort, progress, |index| {
        by_case[index] = sequence_seconds(DESIGNS[index], &setup, CASES, sequence_size(effort));
        by_case[index].iter().sum()
    });
    let crowd = SHUFFLED.measure(effort, progress, |index| {
        shuffled(DESIGNS[index], &setup, CASES, shuffled_size(effort), crate::cpu::count()).seconds
    });
    let claims = [IN_SEQUENCE.claims(&sequence), SHUFFLED.claims(&crowd)].concat();
    let (sequence, crowd) = (medians(&sequence), medians(&crowd));
    let row = |name: &str, seconds: &dyn Fn(usize) -> f64| {
        std::iter::once(name.to_owned())
            .chain((0..DESIGNS.len()).map(|index| figure(seconds(index))))
            .collect()
    };
    let cases = CASES.iter().enumerate().map(|(nth, case)| row(case.name, &|index| by_case[index][nth]));
    let sums =
        [row("all in sequence", &|index| sequence[index]), row("all CPUs, shuffled", &|index| crowd[index])];
    let head: Vec<&str> = std::iter::once("seconds").chain(DESIGNS.map(Name::as_str)).collect();
    let table = Table::new("Every design; single tests: the last round", &head, cases.chain(sums).collect());
    Outcome::new(Figure::F2, effort, claims, vec![table], &NOTES)
}

/// A way to run all tests.
struct Way {
    what: &'static str,
    published: &'static str,
    clock: Clock,
    /// The bar from the list of free ranges to the tree.
    of_free_list: Option<f64>,
}

const IN_SEQUENCE: Way = Way {
    what: "all tests in sequence",
    published: "646.9 → 193.3 · 10⁹ cycles, 3.35× (7.5× on arm64)",
    clock: Clock::Own,
    of_free_list: Some(BAR),
};

const SHUFFLED: Way = Way {
    what: "all tests on all CPUs, shuffled",
    published: "6,083 → 56.8 s, 107× (arm64: over a day → 265 s)",
    clock: Clock::Wall,
    // The loss of the list of free ranges with several CPUs was not published.
    of_free_list: None,
};

impl Way {
    /// Measures the seconds of every design in each round.
    fn measure(
        &self,
        effort: Effort,
        progress: &Progress,
        seconds: impl FnMut(usize) -> f64,
    ) -> Vec<Vec<Sample>> {
        let patience = effort.patience(least_rounds(effort));
        rounds(DESIGNS.len(), patience, progress, seconds, |rounds| self.claims(rounds))
    }

    /// From each of the lists to the tree; and from there to ours, which has no bar.
    fn claims(&self, rounds: &[Vec<Sample>]) -> Vec<Claim> {
        let claim = |before: usize, after: usize, published, bar| {
            let [from, to] = [before, after].map(|design| DESIGNS[design].as_str());
            Measured {
                what: format!("{}: {from} → {to}", self.what),
                published,
                before: column(rounds, before),
                after: column(rounds, after),
                unit: "s",
                clock: self.clock,
                middle: median,
            }
            .claim(Unit::Times, bar)
        };
        vec![
            claim(0, AFTER, self.published, Some(BAR)),
            claim(1, AFTER, "(not merged)", self.of_free_list),
            claim(AFTER, 4, "(ours)", None),
        ]
    }
}

const NOTES: [&str; 4] = [
    "The tree was published against the list of busy areas, the mainline of its time; the list of free ranges had been proposed and not merged. In \
     sequence both have to be slower by 3.35.",
    "The space is lived in: 8,000 areas of 1 to 64 pages, as on a large server, one of which is replaced every 10 loops. With fewer the lists lose less (with 1,000 \
     the list of free ranges takes 1.5 times the tree's time), for they are walked: that is what was published.",
    "107 came from four CPUs that waited for one lock. On other CPUs it is another number; the bar is that of the sequence.",
    "In sequence: time of the thread's CPU, what tests prepare included. Shuffled: until the last thread is done.",
];
