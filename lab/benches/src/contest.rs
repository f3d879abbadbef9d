//! Several allocators through one workload, round by round.
//!
//! Every allocator is brought into the state of the workload first; then they take turns, a window
//! each, so that whatever else the machine does hits all of them alike. The medians of the rounds
//! are compared.

use crate::adapter::{self, Noop, Visitor};
use crate::ranges::Ranges;
use crate::rounds::{self, cpu_ns, pace};
use crate::stage::{Readiness, Stage};
use crate::workload::{Cycle, Workload};
use serde::Serialize;
use std::time::Duration;
use vmalloc_kit::stats::median;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds, and their windows.
    pub rounds: rounds::Limits,
    /// The most that the set-up of one allocator may take, and its pass of single timings.
    pub cap: Duration,
    /// Turns that are timed one by one, if the cap allows.
    pub timed_iterations: usize,
}

/// The result of one allocator in one workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Which workload.
    pub workload: &'static str,
    /// Which allocator.
    pub allocator: &'static str,
    /// CPU time of one pair or lookup, the median of the rounds.
    pub ns: Option<f64>,
    /// That over the first allocator's: ours.
    pub ratio: Option<f64>,
    /// Pages from the base of the space to the highest live end, over live pages.
    pub span_per_live: Option<f64>,
    /// Metadata over live areas.
    pub bytes_per_area: Option<f64>,
    /// A remark on the figures.
    pub note: Option<String>,
}

/// An allocator in a workload, its type forgotten.
trait Entrant {
    fn set_up(&mut self, limits: &Limits);
    fn round(&mut self);
    fn row(&mut self) -> Row;
}

struct Entry<R: Ranges> {
    workload: &'static Workload,
    stage: Option<Stage<R>>,
    iterations: usize,
    rounds: Vec<f64>,
    row: Row,
}

impl<R: Ranges> Entry<R> {
    fn new(workload: &'static Workload) -> Self {
        let row = Row { workload: workload.name, allocator: R::NAME, ..Row::default() };
        Self { workload, stage: None, iterations: 0, rounds: Vec::new(), row }
    }

    /// Returns the CPU nanoseconds of a window of `iterations` iterations.
    fn window(stage: &mut Stage<R>, iterations: usize) -> f64 {
        let window = stage.draw(iterations);
        let spent = cpu_ns(|| stage.play(&window));
        stage.absorb(&window);
        spent
    }
}

impl<R: Ranges> Entrant for Entry<R> {
    fn set_up(&mut self, limits: &Limits) {
        if !adapter::is_able::<R>(self.workload) {
            let lacks = match self.workload.cycle {
                Cycle::Near => "not near a page",
                _ if self.workload.finds() => "no lookup",
                _ => "no alignment",
            };
            self.row.note = Some(lacks.to_owned());
            return;
        }
        let mut stage = Stage::new(self.workload);
        let cap = limits.cap;
        match stage.set_up(cap) {
            Err(_) => {
                self.row.note = Some(format!("set-up takes more than {cap:?}"));
                return;
            }
            Ok(Readiness::ChurnCut) => {
                self.row.note = Some(format!("not yet steady: churn cut at {cap:?}"));
            }
            Ok(Readiness::Steady) => {}
        }
        if let areas @ 1.. = self.workload.live_areas() {
            self.row.bytes_per_area = Some(stage.metadata_bytes() as f64 / areas as f64);
        }
        self.iterations = pace(limits.rounds.window, |iterations| Self::window(&mut stage, iterations));
        self.stage = Some(stage);
    }

    fn round(&mut self) {
        if let Some(stage) = &mut self.stage {
            let operations = self.iterations * self.workload.pairs_per_iteration();
            self.rounds.push(Self::window(stage, self.iterations) / operations as f64);
        }
    }

    fn row(&mut self) -> Row {
        if !self.rounds.is_empty() {
            self.row.ns = Some(median(&self.rounds));
        }
        if R::NAME != Noop::NAME {
            self.row.span_per_live = self.stage.as_ref().and_then(Stage::span_per_live);
        }
        self.row.clone()
    }
}

struct Enter<'a> {
    workload: &'static Workload,
    wanted: &'a dyn Fn(&str) -> bool,
    entrants: Vec<Box<dyn Entrant>>,
}

impl Visitor for Enter<'_> {
    fn visit<R: Ranges + 'static>(&mut self) {
        if (self.wanted)(R::NAME) {
            self.entrants.push(Box::new(Entry::<R>::new(self.workload)));
        }
    }
}

/// Measures the allocators whose names are `wanted` in `workload`; the rows in the order of the
/// adapters.
/// `progress` is called after every step of work.
pub fn run(
    workload: &'static Workload,
    limits: &Limits,
    wanted: &dyn Fn(&str) -> bool,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    let mut enter = Enter { workload, wanted, entrants: Vec::new() };
    adapter::each(workload, &mut enter);
    let mut entrants = enter.entrants;
    for entrant in &mut entrants {
        entrant.set_up(limits);
        progress("set-up");
    }
    for _ in 0..limits.rounds.rounds {
        entrants.iter_mut().for_each(|entrant| entrant.round());
        progress("rounds");
    }
    let mut rows: Vec<Row> = entrants.iter_mut().map(|entrant| entrant.row()).collect();
    compare(&mut rows);
    rows
}

fn compare(rows: &mut [Row]) {
    let Some(ours) = rows.first().and_then(|row| row.ns) else { return };
    for row in rows {
        row.ratio = row.ns.map(|ns| ns / ours);
    }
}

/// How long single pairs of an allocator take, in ns.
#[derive(Clone, Debug, Serialize)]
pub struct Tail {
    /// The allocator's name.
    pub allocator: &'static str,
    /// 50, 99, 99.9 and 99.99 % of the pairs, each the median of the rounds; and the slowest pair
    /// of the round in which that was fastest, and of the one in which it was slowest.
    ///
    /// What the machine does to a program, interrupts and the hypervisor, is in every tail, but
    /// does not come twice at the same place: the former is what an allocator does itself.
    pub ns: [f64; 6],
}

struct Tails<'a> {
    workload: &'a Workload,
    limits: &'a Limits,
    wanted: &'a dyn Fn(&str) -> bool,
    rows: Vec<Tail>,
}

impl Visitor for Tails<'_> {
    fn visit<R: Ranges + 'static>(&mut self) {
        if !(self.wanted)(R::NAME) || !adapter::is_able::<R>(self.workload) {
            return;
        }
        let mut stage = Stage::<R>::new(self.workload);
        // One that is too slow has no row.
        if stage.set_up(self.limits.cap).is_err() {
            return;
        }
        let pairs = self.limits.timed_iterations;
        let rounds: Vec<_> = (0..self.limits.rounds.rounds).map(|_| stage.time(pairs)).collect();
        let at = |part| median(&rounds.iter().map(|times| times.quantile(part) as f64).collect::<Vec<_>>());
        let slowest = || rounds.iter().map(|times| times.max() as f64);
        let ends = [slowest().fold(f64::MAX, f64::min), slowest().fold(0.0, f64::max)];
        let ns = [at(0.5), at(0.99), at(0.999), at(0.9999), ends[0], ends[1]];
        self.rows.push(Tail { allocator: R::NAME, ns });
    }
}

/// Times single pairs of `workload`: of our spaces that a thread drains, and of all allocators, as
/// far as their names are `wanted`.
pub fn tails(workload: &Workload, limits: &Limits, wanted: &dyn Fn(&str) -> bool) -> Vec<Tail> {
    let mut tails = Tails { workload, limits, wanted, rows: Vec::new() };
    adapter::each_drained(&mut tails);
    adapter::each(workload, &mut tails);
    tails.rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rounds: usize) -> Limits {
        let rounds = rounds::Limits { rounds, window: Duration::from_micros(100) };
        Limits { rounds, cap: Duration::from_secs(5), timed_iterations: 10_000 }
    }

    #[test]
    fn quantiles_ascend() {
        let workload = Workload::named("W4").expect("it is in the table");
        let tails = tails(workload, &limits(3), &|name| name.starts_with("vmalloc"));
        assert_eq!(tails.len(), 4);
        for Tail { allocator, ns: [p50, p99, p99_9, p99_99, least, most] } in tails {
            assert!([0.0, p50, p99, p99_9, p99_99, most].is_sorted() && least <= most, "{allocator}");
        }
    }

    #[test]
    fn contest_has_a_row_for_each_allocator_and_ratios_to_the_first() {
        let (workload, limits) = (Workload::named("W6").expect("it is in the table"), limits(1));
        let wanted = |name: &str| name.starts_with("BTreeMap") || name.starts_with("offset");
        let rows = run(workload, &limits, &wanted, &|_| ());
        let names: Vec<_> = rows.iter().map(|row| row.allocator).collect();
        assert_eq!(names, ["BTreeMap first fit", "BTreeMap best fit", "offset-allocator"]);
        assert_eq!(rows[0].ratio, Some(1.0));
        assert!(rows[1].ns.is_some());
        assert_eq!((rows[2].ns, rows[2].note.as_deref()), (None, Some("no alignment")));
    }
}
