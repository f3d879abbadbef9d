//! `vmalloc test`: the field's test driver over one space of real memory.
//!
//! ```text
//!   words ──params──► Parameters ──crew──► a thread for each worker ──worker──► cases
//!                                                  │
//!                                  Record for each worker ──report──► text or JSON
//! ```
//!
//! All workers share one space. After they have ended, the space is verified and must be whole again.

pub(crate) mod help;
mod params;
mod preset;
mod report;
mod worker;

use crate::args::TestOptions;
use crate::clock;
use crate::crew::{self, Haul};
use crate::error::{Exit, Failure};
use crate::machine::Machine;
use crate::output;
use crate::progress::Wait;
use params::Parameters;
use report::{Report, Stages};
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::Platform;
use worker::Record;

/// Runs the command.
pub(crate) fn run(options: &TestOptions, json: bool) -> Result<Exit, Failure> {
    if options.list {
        return help::list(json).map(|()| Exit::Success);
    }
    let parameters = params::parse(&options.words)?;
    let machine = Machine::new(options.machine)?;
    let report = measure(&machine, &parameters, options)?;
    report.warn();
    let written = if json { output::json(&report) } else { output::text(&report.to_string()) };
    written?;
    Ok(if report.ok { Exit::Success } else { Exit::Failed })
}

fn measure(machine: &Machine, parameters: &Parameters, options: &TestOptions) -> Result<Report, Failure> {
    // A seed of 32 bits is easy to type again, and exact in any reader of JSON.
    let seed = parameters.seed.unwrap_or_else(|| machine.space.platform().entropy() & 0xffff_ffff);
    let before = machine.counts();
    let Haul { records, mut complaints } = run_crew(machine, parameters, seed)?;
    let after = machine.counts();
    complaints.extend(machine.check_whole());
    let stats = Stages { before, after, purged: machine.counts() };
    let most_held = machine.most_held(parameters.nr_threads);
    let failed = records.iter().flat_map(|record| &record.cases).any(|case| case.failed != 0);
    Ok(Report {
        command: "test",
        version: env!("CARGO_PKG_VERSION"),
        parameters: parameters.clone(),
        strategy: options.machine.strategy,
        seed,
        skipped: parameters.skipped().map(|case| case.name).collect(),
        machine: machine.facts(),
        most_held: most_held.map(|most| most.areas),
        held_back_by: most_held.map(|most| most.by),
        clock: clock::NAME,
        workers: records,
        stats,
        ok: complaints.is_empty() && !failed,
        complaints,
    })
}

/// Runs all workers to their end.
fn run_crew(machine: &Machine, parameters: &Parameters, seed: u64) -> Result<Haul<Record>, Failure> {
    let threads = parameters.nr_threads;
    let done = AtomicU64::new(0);
    let all = threads * parameters.cases().count() as u64 * parameters.test_repeat_count;
    let wait = Wait { what: "runs of a case", all, done: &|_| done.load(Ordering::Relaxed), limit: None };
    let work = |number| worker::run(machine, parameters, seed, number, &done);
    crew::run(threads, &format!("nr_threads={threads}"), work, |finished| wait.wait(finished))
}
