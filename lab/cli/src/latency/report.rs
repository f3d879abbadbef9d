//! The report of a run: a table, and JSON.

use super::{BUFFER_BYTES, PERIOD, Record};
use crate::args::LatencyOptions;
use crate::machine::{Facts, Machine, Strategy};
use crate::output;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use vmalloc::Stats;
use vmalloc_lab::table::table;
use vmalloc_lab::times::{QUANTILES, Times};

/// All of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    strategy: Strategy,
    threads: u64,
    seconds: u64,
    bytes: usize,
    period_us: u64,
    /// Nodes, if their number was chosen; what there are is among the facts of the machine.
    #[serde(skip)]
    nodes: Option<u64>,
    /// Pairs of all workers.
    pairs: u64,
    pairs_per_second: u64,
    /// Wake-ups that came too late to be told from the next one.
    missed_wakeups: u64,
    /// Microseconds.
    distributions: Vec<Line>,
    /// Before what was freed is purged.
    stats: Stats,
    machine: Facts,
    complaints: Vec<String>,
    pub(super) ok: bool,
}

/// A distribution, under its name.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    count: u64,
    #[serde(flatten)]
    microseconds: BTreeMap<&'static str, f64>,
    #[serde(skip)]
    times: Times,
}

impl Report {
    /// Collects the records, and checks the space, which is no longer used.
    pub(super) fn new(machine: &Machine, options: &LatencyOptions, threads: u64, records: &[Record]) -> Self {
        let stats = machine.counts();
        let complaints = machine.check_whole();
        let pairs = records.iter().map(|record| record.pairs).sum();
        Self {
            strategy: options.machine.strategy,
            threads,
            seconds: options.seconds,
            bytes: BUFFER_BYTES,
            period_us: PERIOD.as_micros() as u64,
            nodes: options.machine.nodes,
            pairs,
            pairs_per_second: pairs / options.seconds,
            missed_wakeups: records.iter().map(|record| record.missed).sum(),
            distributions: lines(records),
            stats,
            machine: machine.facts(),
            ok: complaints.is_empty(),
            complaints,
        }
    }

    /// Says on stderr what went wrong.
    pub(super) fn warn(&self) {
        self.complaints.iter().for_each(|complaint| output::note(complaint));
    }
}

/// Returns the names of the columns, and what each tells in microseconds.
fn columns(times: &Times) -> impl Iterator<Item = (&'static str, f64)> {
    let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    let quantiles = QUANTILES.map(|(name, part)| (name, us(times.quantile(part))));
    let ends = [("min", us(times.histogram().min())), ("avg", times.mean() / 1000.0)];
    ends.into_iter().chain(quantiles).chain([("max", us(times.max()))])
}

fn lines(records: &[Record]) -> Vec<Line> {
    let line = |name, part: fn(&Record) -> Option<&Times>| {
        let mut times = Times::precise();
        records.iter().filter_map(part).for_each(|part| times.add(part));
        Line { name, count: times.count(), microseconds: columns(&times).collect(), times }
    };
    vec![line("wake-up", |record| record.late.as_ref()), line("pair", |record| record.timed.as_ref())]
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            strategy,
            threads,
            seconds,
            bytes,
            period_us,
            pairs,
            pairs_per_second,
            missed_wakeups,
            ..
        } = self;
        write!(f, "vmalloc latency: strategy={strategy} threads={threads} seconds={seconds}")?;
        write!(f, " bytes={bytes} period_us={period_us}")?;
        if let Some(nodes) = self.nodes {
            write!(f, " nodes={nodes}")?;
        }
        writeln!(f)?;
        writeln!(f, "{}", self.table())?;
        writeln!(f, "The workers made {pairs} pairs, {pairs_per_second} a second")?;
        if *missed_wakeups != 0 {
            writeln!(f, "Wake-ups later than the next was due took the place of {missed_wakeups} others")?;
        }
        if self.ok { writeln!(f, "The space is whole again") } else { Ok(()) }
    }
}

impl Report {
    fn table(&self) -> String {
        let names =
            self.distributions.iter().take(1).flat_map(|line| columns(&line.times)).map(|(name, _)| name);
        let head: Vec<_> = ["µs", "count"].into_iter().chain(names).collect();
        let row = |line: &Line| {
            let values = columns(&line.times).map(|(_, value)| format!("{value:.3}"));
            [line.name.to_owned(), line.count.to_string()].into_iter().chain(values).collect()
        };
        table("lr", &head, self.distributions.iter().map(row).collect())
    }
}
