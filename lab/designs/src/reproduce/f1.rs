//! F1: a list of free ranges instead of a scan of busy areas (request for comments, 2018).

use super::measure::{Place, medians, one_loop, rounds};
use super::{Claim, Effort, Figure, Outcome, Progress, Table, Unit};
use crate::design::Setup;
use crate::designs::Name;
use crate::table::figure;
use crate::workload::{Case, FITS, Size};

/// Before, after, and what came later.
const DESIGNS: [Name; 6] = Name::GENERATIONS;

/// A test, where it is run, what was published of it, and what has to be saved of what a search
/// looks at.
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
    row(0, Place::Booted, "1.22 → 1.15 µs, 5–7 % (11–24 % on arm64)", None),
    row(1, Place::Booted, "0.97 → 1.01 µs, −4–3 % (23–31 %)", None),
    row(2, Place::Booted, "2.06 → 2.04 µs, 0–0.6 % (−3–4 %)", None),
    row(3, Place::Booted, LONG, Some(69.0)),
    row(3, Place::LivedIn, "(not on such a space)", None),
];

const fn row(case: usize, place: Place, published: &'static str, bar: Option<f64>) -> Row {
    Row { case: &FITS[case], place, published, bar }
}

impl Row {
    fn name(&self) -> String {
        let place = if self.place == Place::LivedIn { ", space lived in" } else { "" };
        format!("{}{place}", self.case.name)
    }

    /// The time of the list of busy areas grows with what stays.
    fn size(&self, effort: Effort) -> Size {
        Size::loops(if self.case.name == FITS[3].name { effort.choose(2_000, 20_000) } else { 50_000 })
    }
}

fn least_rounds(effort: Effort) -> usize {
    effort.choose(1, 5)
}

pub(super) fn steps(effort: Effort) -> u64 {
    (ROWS.len() * DESIGNS.len() * least_rounds(effort)) as u64
}

/// The microseconds of a loop, and what its searches look at.
type Looped = [f64; 2];

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let setup = Setup::of_this_machine();
    let measure = |row: &Row| {
        let size = row.size(effort);
        let value = |index: usize| one_loop(DESIGNS[index], &setup, row.place, row.case, size);
        rounds(DESIGNS.len(), least_rounds(effort), progress, value)
    };
    let measured: Vec<_> = ROWS.iter().map(measure).collect();
    let claims = ROWS.iter().zip(&measured).map(|(row, rounds)| claim(row, rounds));
    let table = |title: &str, of: usize, unit: &str| {
        let cells = |(row, rounds): (&Row, &Vec<Vec<Looped>>)| {
            let figures = medians(rounds, |looped| looped[of]).into_iter().map(figure);
            std::iter::once(row.name()).chain(figures).collect()
        };
        let head: Vec<&str> = std::iter::once(unit).chain(DESIGNS.map(Name::as_str)).collect();
        Table::new(title, &head, ROWS.iter().zip(&measured).map(cells).collect())
    };
    let tables = vec![
        table("Every design, medians, addresses alone", 0, "µs a loop"),
        table("Areas, free ranges or nodes that searches look at (ours does not count)", 1, "a loop"),
    ];
    Outcome::new(Figure::F1, effort, claims.collect(), tables, &NOTES)
}

fn claim(row: &Row, rounds: &[Vec<Looped>]) -> Claim {
    let looked = medians(rounds, |looped| looped[1]);
    let what = format!("{}: busy list → free list", row.name());
    Claim::of(what, row.published, [looked[0], looked[1]], "looked at a loop", Unit::PercentSaved, row.bar)
}

const NOTES: [&str; 4] = [
    "A claim judges how many areas, or free ranges, a loop looks at: the same on every machine. The bar is the least of the time that was saved where it was \
     about: 69 % with 15,000 areas held. The other three tests were published to show that short searches get no slower.",
    "The space is that of a virtual machine after boot (its /proc/vmallocinfo). What was in its gaps goes when the test has made its areas: then the small request \
     fits a gap and the large one does not, so the search begins at the bottom again and again.",
    "Lived in: 8,000 areas of 1 to 64 pages, one of which is replaced every 10 loops, as on a machine that does something besides.",
    "The publication describes the loops of le_fit and long_busy_list; those of the other two follow from their names: b_fit cuts 3 pages \
     out of holes of exactly that, ne_fit takes 3 pages at multiples of 8. Time of the thread's CPU.",
];
