//! `vmalloc-lab test`: Linux's test driver over one space of real memory.
//!
//! ```text
//!   words ──params──► Parameters ──► a thread for each worker ──worker──► cases
//!                                                    │
//!                                    Record for each worker ──report──► text or JSON
//! ```
//!
//! All workers share one space, which is verified afterwards and must be whole again.

pub(crate) mod help;
mod params;
mod preset;
mod report;
mod worker;

use crate::args::TestOptions;
use crate::error::{Exit, Failure};
use crate::machine::Machine;
use crate::output;
use crate::progress::Wait;
use crate::worker_threads::{self, Haul};
use params::Parameters;
use report::{Report, Stages};
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::Platform;
use vmalloc_lab::clock;
use worker::{Record, Round};

/// Runs the command.
pub(crate) fn run(options: &TestOptions, json: bool) -> Result<Exit, Failure> {
    if options.list {
        return help::list(json).map(|()| Exit::Success);
    }
    let parameters = params::parse(&options.words)?;
    let machine = Machine::new(options.machine)?;
    let report = measure(&machine, &parameters, options)?;
    report.warn();
    output::tell("test", &report, &report.to_string(), json).map(|()| Exit::of(report.ok))
}

fn measure(machine: &Machine, parameters: &Parameters, options: &TestOptions) -> Result<Report, Failure> {
    // A seed of 32 bits is easy to type again, and exact in any reader of JSON.
    let seed = parameters.seed.unwrap_or_else(|| machine.space.platform().entropy() & 0xffff_ffff);
    let before = machine.counts();
    let Haul { records, mut complaints } = round(machine, parameters, seed)?;
    let after = machine.counts();
    complaints.extend(machine.check_whole());
    let stats = Stages { before, after, purged: machine.counts() };
    let failed = records.iter().flat_map(|record| &record.cases).any(|case| case.failed != 0);
    Ok(Report {
        parameters: parameters.clone(),
        strategy: options.machine.strategy,
        seed,
        machine: machine.facts(),
        most_held: machine.most_held(parameters.nr_threads),
        clock: clock::NAME,
        workers: records,
        stats,
        ok: complaints.is_empty() && !failed,
        complaints,
    })
}

/// Runs all workers to their end.
fn round(machine: &Machine, parameters: &Parameters, seed: u64) -> Result<Haul<Record>, Failure> {
    let round = Round { machine, parameters, seed, done: AtomicU64::new(0) };
    let threads = parameters.nr_threads;
    let all = threads * parameters.cases().count() as u64 * parameters.test_repeat_count;
    let done = |_| round.done.load(Ordering::Relaxed);
    worker_threads::run(
        threads,
        &format!("nr_threads={threads}"),
        |number| worker::run(&round, number),
        |finished| Wait { what: "runs of a case", all, done: &done, limit: None }.wait(finished),
    )
}
