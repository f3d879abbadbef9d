//! The report of a run: a table, and JSON.

use super::{BUFFER_BYTES, PERIOD, Record};
use crate::args::LatencyOptions;
use crate::machine::{Facts, Machine, Strategy};
use crate::output;
use serde::Serialize;
use std::fmt::{self, Display};
use vmalloc::Stats;
use vmalloc_lab::replay::Latency;
use vmalloc_lab::table::table;
use vmalloc_lab::times::Times;

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
    distributions: Vec<Line>,
    /// Before what was freed is purged.
    stats: Stats,
    machine: Facts,
    complaints: Vec<String>,
    pub(super) ok: bool,
}

/// A distribution in nanoseconds, under its name.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    #[serde(flatten)]
    times: Latency,
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

fn lines(records: &[Record]) -> Vec<Line> {
    let line = |name, part: fn(&Record) -> Option<&Times>| {
        let mut times = Times::precise();
        records.iter().filter_map(part).for_each(|part| times.add(part));
        Line { name, times: (&times).into() }
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
        let row = |Line { name, times }: &Line| {
            let Latency { count, mean, p50, p99, p99_9, p99_99, max } = *times;
            let times = [mean as u64, p50, p99, p99_9, p99_99, max];
            let micros = times.map(|ns| format!("{:.3}", ns as f64 / 1000.0));
            [(*name).to_owned(), count.to_string()].into_iter().chain(micros).collect()
        };
        let head = ["µs", "count", "mean", "p50", "p99", "p99.9", "p99.99", "max"];
        table("lr", &head, self.distributions.iter().map(row).collect())
    }
}
