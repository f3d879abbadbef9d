//! F1: a list of free ranges instead of a scan of busy areas (request for comments, 2018).

use super::measure::{Place, column, loop_us, medians, rounds};
use super::{Claim, Clock, Effort, Figure, Measured, Outcome, Progress, Sample, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::stats::median;
use crate::table::figure;
use crate::workload::{Case, FITS, Size};

/// Before, after, and what came later.
const DESIGNS: [Name; 6] = Name::GENERATIONS;

/// A test, where it is run, what was published of it, and what has to be saved.
struct Row {
    case: &'static Case,
    place: Place,
    published: &'static str,
    bar: Option<f64>,
}

const LONG: &str = "55.9 → 15.0 µs, 69–74 % (84–95 %)";

/// Two machines: an i5-3320M with five runs, and a HiKey960. Only the last test was about the
/// change; the others show that it costs nothing.
const ROWS: [Row; 5] = [
    row(0, Place::Empty, "1.22 → 1.15 µs, 5–7 % (11–24 % on arm64)", None),
    row(1, Place::Empty, "0.97 → 1.01 µs, −4–3 % (23–31 %)", None),
    row(2, Place::Empty, "2.06 → 2.04 µs, 0–0.6 % (−3–4 %)", None),
    row(3, Place::LivedIn, LONG, Some(69.0)),
    row(3, Place::Empty, "(not on an empty space)", None),
];

const fn row(case: usize, place: Place, published: &'static str, bar: Option<f64>) -> Row {
    Row { case: &FITS[case], place, published, bar }
}

impl Row {
    fn name(&self) -> String {
        let place = if self.place == Place::LivedIn { ", space lived in" } else { "" };
        format!("{}{place}", self.case.name)
    }
}

fn least_rounds(effort: Effort) -> usize {
    effort.choose(3, 5)
}

fn size(effort: Effort, row: &Row) -> Size {
    let long = row.place == Place::LivedIn;
    Size::loops(if long { effort.choose(2_000, 50_000) } else { effort.choose(50_000, 1_000_000) })
}

pub(super) fn steps(effort: Effort) -> u64 {
    (ROWS.len() * DESIGNS.len() * least_rounds(effort)) as u64
}

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let measured: Vec<_> = ROWS.iter().map(|row| measure(row, effort, progress)).collect();
    let claims = ROWS.iter().zip(&measured).map(|(row, rounds)| claim(row, rounds));
    let cells = |(row, rounds): (&Row, &Vec<Vec<Sample>>)| {
        std::iter::once(row.name()).chain(medians(rounds).into_iter().map(figure)).collect()
    };
    let head: Vec<&str> = std::iter::once("µs a loop").chain(DESIGNS.map(Name::as_str)).collect();
    let rows = ROWS.iter().zip(&measured).map(cells).collect();
    let table = Table::new("Every design, medians, addresses alone", &head, rows);
    Outcome::new(Figure::F1, effort, claims.collect(), vec![table], &NOTES)
}

/// Measures every design in each round.
fn measure(row: &Row, effort: Effort, progress: &Progress) -> Vec<Vec<Sample>> {
    let setup = Setup::of_this_machine();
    let value = |index: usize| {
        let size = size(effort, row);
        loop_us(DESIGNS[index], &setup, row.place, row.case, size)
    };
    rounds(DESIGNS.len(), effort.patience(least_rounds(effort)), progress, value, |rounds| {
        vec![claim(row, rounds)]
    })
}

fn claim(row: &Row, rounds: &[Vec<Sample>]) -> Claim {
    Measured {
        what: format!("{}: busy list → free list", row.name()),
        published: row.published,
        before: column(rounds, 0),
        after: column(rounds, 1),
        unit: "µs a loop",
        clock: Clock::Own,
        middle: median,
    }
    .claim(Unit::PercentSaved, row.bar)
}

const NOTES: [&str; 4] = [
    "The bar is the least that was saved where it was about: 69 % with 15,000 areas held. The other three tests were published to show that \
     short searches get no slower; there pages made most of the time, of which there are none here.",
    "Lived in: 8,000 areas of 1 to 64 pages, one of which is replaced every 10 loops, as on a machine that does something besides. In the holes \
     that leaves the small request of the test fits and the large one does not, so the search begins at the bottom again and again. On a \
     space with nothing else in it the busy list's cache is right nearly always, and nothing is saved: the last row.",
    "The publication describes the loops of le_fit and long_busy_list; those of the other two follow from their names: b_fit cuts 3 pages \
     out of holes of exactly that, ne_fit takes 3 pages at multiples of 8.",
    "Time of the thread's CPU; each round measures every design once, on a new space.",
];
