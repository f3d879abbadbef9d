//! The report of a run: a table, and JSON.

use super::plan::{BUFFER_BYTES, MAX_PAGES, Means, PERIOD, Plan};
use super::worker::Record;
use crate::machine::{Facts, Machine, MachineOptions, Strategy};
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
    bytes: Option<usize>,
    period_us: Option<u64>,
    live_areas: Option<u64>,
    max_pages: Option<u64>,
    addresses_only: bool,
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
    pub(super) fn new(machine: &Machine, plan: &Plan, options: MachineOptions, records: &[Record]) -> Self {
        let stats = machine.counts();
        let complaints = machine.check_whole();
        let pairs = records.iter().map(|record| record.pairs).sum();
        Self {
            strategy: options.strategy,
            threads: plan.threads,
            seconds: plan.time.as_secs(),
            // The probe has a buffer, and so have workers without a live set.
            bytes: plan.pairs.is_none().then_some(BUFFER_BYTES),
            period_us: plan.pairs.is_none().then_some(PERIOD.as_micros() as u64),
            live_areas: plan.live,
            max_pages: plan.live.map(|_| MAX_PAGES),
            addresses_only: plan.means() == Means::Addresses,
            nodes: options.nodes,
            pairs,
            pairs_per_second: (pairs as f64 / plan.time.as_secs_f64()) as u64,
            missed_wakeups: records.iter().map(|record| record.missed).sum(),
            distributions: lines(plan, records),
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

fn lines(plan: &Plan, records: &[Record]) -> Vec<Line> {
    let line = |name, part: fn(&Record) -> Option<&Times>| {
        let mut times = Times::precise();
        records.iter().filter_map(part).for_each(|part| times.add(part));
        Line { name, count: times.count(), microseconds: columns(&times).collect(), times }
    };
    let pair = line("pair", |record| record.timed.as_ref());
    match plan.pairs {
        None => vec![line("wake-up", |record| record.late.as_ref()), pair],
        Some(_) => vec![pair],
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, threads, seconds, pairs, pairs_per_second, missed_wakeups, .. } = self;
        write!(f, "vmalloc latency: strategy={strategy} threads={threads} seconds={seconds}")?;
        let settings = [
            ("bytes", self.bytes.map(|bytes| bytes as u64)),
            ("period_us", self.period_us),
            ("live", self.live_areas),
            ("max_pages", self.max_pages),
            ("addresses", self.addresses_only.then_some(1)),
            ("nodes", self.nodes),
        ];
        for (name, value) in settings.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
            write!(f, " {name}={value}")?;
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
