//! F2: the largest free range below each node of a tree, instead of lists (merged series, 2019).

use super::measure::{medians, sequence_seconds, shuffled};
use super::{Claim, Effort, Figure, Outcome, Pair, Progress, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::table::figure;
use crate::workload::{CASES, Size};

const DESIGNS: [Name; 6] =
    [Name::BusyList, Name::FreeList, Name::Augmented, Name::Nodes, Name::Vmalloc, Name::VmallocCached];
/// Where it was published.
const AFTER: usize = 2;

/// The published gain of all tests in sequence, on the machine that gained less.
const BAR: f64 = 3.35;
const SEQUENCE: &str = "646.9 → 193.3 · 10⁹ cycles, 3.35× (7.5× on arm64)";
const SHUFFLED: &str = "6,083 → 56.8 s, 107× (arm64: over a day → 265 s)";

fn rounds(effort: Effort) -> usize {
    effort.choose(1, 3)
}

fn sequence_size(effort: Effort) -> Size {
    effort.choose(Size::loops(10_000).held_by(4), Size::loops(20_000))
}

fn shuffled_size(effort: Effort) -> Size {
    effort.choose(Size::loops(5_000).held_by(8), Size::loops(20_000).held_by(2))
}

pub(super) fn steps(effort: Effort) -> u64 {
    (2 * DESIGNS.len() * rounds(effort)) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::of_this_machine();
    let mut by_case = vec![Vec::new(); DESIGNS.len()];
    let sequence = medians(&[0, 1, 2, 3, 4, 5], rounds(effort), |index| {
        by_case[index] = sequence_seconds(DESIGNS[index], &setup, CASES, sequence_size(effort));
        progress.step();
        by_case[index].iter().sum()
    });
    let crowd = medians(&DESIGNS, rounds(effort), |name| {
        let crowd = shuffled(name, &setup, CASES, shuffled_size(effort), crate::cpu::count());
        progress.step();
        crowd.seconds
    });
    let mut claims = claims("all tests in sequence", SEQUENCE, &sequence, Some(BAR));
    // The loss of the list of free ranges with several CPUs was not published.
    claims.extend(self::claims("all tests on all CPUs, shuffled", SHUFFLED, &crowd, None));
    let head: Vec<&str> = std::iter::once("seconds").chain(DESIGNS.map(Name::as_str)).collect();
    let row = |name: &str, seconds: &dyn Fn(usize) -> f64| {
        std::iter::once(name.to_owned())
            .chain((0..DESIGNS.len()).map(|index| figure(seconds(index))))
            .collect()
    };
    let cases = CASES.iter().enumerate().map(|(nth, case)| row(case.name, &|index| by_case[index][nth]));
    let sums =
        [row("all in sequence", &|index| sequence[index]), row("all CPUs, shuffled", &|index| crowd[index])];
    let table = Table::new("Every design; single tests: the last round", &head, cases.chain(sums).collect());
    Outcome::new(Figure::F2, effort, claims, vec![table], &NOTES)
}

/// From each of the lists to the tree; and from there to ours, which has no bar.
fn claims(what: &str, published: &str, seconds: &[f64], of_free_list: Option<f64>) -> Vec<Claim> {
    let claim = |before: usize, after: usize, published, bar| {
        let pair = Pair { before: seconds[before], after: seconds[after], unit: "s" };
        let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
        Claim::of_times(what, published, pair, Unit::Times, bar)
    };
    vec![
        claim(0, AFTER, published, Some(BAR)),
        claim(1, AFTER, "(not merged)", of_free_list),
        claim(AFTER, 4, "(ours)", None),
    ]
}

const NOTES: [&str; 4] = [
    "The tree was published against the list of busy areas, the mainline of its time; the list of free ranges had been proposed and not merged. In \
     sequence both have to be slower by 3.35.",
    "The space is lived in: 8,000 areas of 1 to 64 pages, as on a large server, one of which is replaced every 10 loops. With fewer the lists lose less (with 1,000 \
     the list of free ranges takes 1.5 times the tree's time), for they are walked: that is what was published.",
    "107 came from four CPUs that waited for one lock. On other CPUs it is another number; the bar is that of the sequence.",
    "In sequence: time of the thread's CPU, what tests prepare included. Shuffled: until the last thread is done.",
];
