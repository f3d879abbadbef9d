//! F2: the largest free range below each node of a tree, instead of lists (merged series, 2019).

use super::measure::{medians, rounds, sequence, shuffled};
use super::{Claim, Effort, Figure, Outcome, Progress, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::table::figure;
use crate::workload::{CASES, Size};

const DESIGNS: [Name; 6] = Name::GENERATIONS;
/// Where it was published.
const AFTER: usize = 2;

/// The published gain of all tests in sequence, on the machine that gained less.
const BAR: f64 = 3.35;
const IN_SEQUENCE: &str = "646.9 → 193.3 · 10⁹ cycles, 3.35× (7.5× on arm64)";
const SHUFFLED: &str = "6,083 → 56.8 s, 107× (arm64: over a day → 265 s)";

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

/// The seconds of a run, and what its searches look at.
type Ran = [f64; 2];

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::of_this_machine();
    let mut by_case = vec![Vec::new(); DESIGNS.len()];
    let in_sequence = |index: usize| {
        let (seconds, looked) = sequence(DESIGNS[index], &setup, CASES, sequence_size(effort));
        let sum = seconds.iter().sum();
        by_case[index] = seconds;
        [sum, looked as f64]
    };
    let in_sequence = rounds(DESIGNS.len(), least_rounds(effort), progress, in_sequence);
    let by_all = |index: usize| {
        let crowd = shuffled(DESIGNS[index], &setup, CASES, shuffled_size(effort), crate::cpu::count());
        [crowd.seconds, crowd.looked as f64]
    };
    let by_all = rounds(DESIGNS.len(), least_rounds(effort), progress, by_all);
    let ways =
        [("all tests in sequence", IN_SEQUENCE, &in_sequence), ("all CPUs, shuffled", SHUFFLED, &by_all)];
    let claims = ways.iter().flat_map(|&(what, published, rounds)| claims(what, published, rounds));
    let row =
        |name: String, cells: Vec<f64>| std::iter::once(name).chain(cells.into_iter().map(figure)).collect();
    let case =
        |(nth, name): (usize, &str)| row(name.to_owned(), by_case.iter().map(|all| all[nth]).collect());
    let cases = CASES.iter().map(|case| case.name).enumerate().map(case);
    let sums =
        ways.iter().map(|(what, _, rounds)| row((*what).to_owned(), medians(rounds, |ran: &Ran| ran[0])));
    let head: Vec<&str> = std::iter::once("seconds").chain(DESIGNS.map(Name::as_str)).collect();
    let table = Table::new("Every design; single tests: the last round", &head, cases.chain(sums).collect());
    Outcome::new(Figure::F2, effort, claims.collect(), vec![table], &NOTES)
}

/// From each of the lists to the tree, by what searches look at; and to ours, by time.
fn claims(what: &str, published: &str, rounds: &[Vec<Ran>]) -> [Claim; 3] {
    let [seconds, looked] = [0, 1].map(|of| medians(rounds, |ran| ran[of]));
    let claim = |from: usize, to: usize, published, of: &[f64], unit, bar| {
        let what = format!("{what}: {} → {}", DESIGNS[from].as_str(), DESIGNS[to].as_str());
        Claim::of(what, published, [of[from], of[to]], unit, Unit::Times, bar)
    };
    [
        claim(0, AFTER, published, &looked, "looked at", Some(BAR)),
        claim(1, AFTER, "(not merged)", &looked, "looked at", Some(BAR)),
        claim(AFTER, 4, "(ours)", &seconds, "s", None),
    ]
}

const NOTES: [&str; 4] = [
    "A claim judges how many areas, free ranges or nodes all searches look at. The tree was published against the list of busy areas, the mainline of its time; \
     the list of free ranges had been proposed and not merged. Both have to look at 3.35 times as many, the published gain in time.",
    "The space is lived in: 8,000 areas of 1 to 64 pages, as on a large server, one of which is replaced every 10 loops. With fewer the lists lose less, for they are walked: \
     that is what was published.",
    "107 came from four CPUs that waited for one lock. On other CPUs it is another number; the bar is that of the sequence.",
    "In sequence: time of the thread's CPU, what tests prepare included. Shuffled: until the last thread is done.",
];
