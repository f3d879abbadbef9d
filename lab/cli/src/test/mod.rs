//! `vmalloc test`: Linux's test driver over one space of real memory.
//!
//! ```text
//!   words ──params──► Parameters ──rounds──► a thread for each worker ──worker──► cases
//!                                                    │
//!                                    Record for each worker ──report──► text or JSON
//! ```
//!
//! All workers share one space. After each round, of which there are many only with `seconds`, the
//! space is verified and must be whole again.

pub(crate) mod help;
mod params;
mod preset;
mod report;
mod rounds;
mod worker;

use crate::args::TestOptions;
use crate::error::{Exit, Failure};
use crate::machine::Machine;
use crate::output;
use params::Parameters;
use report::{Report, Stages};
use rounds::Rounds;
use vmalloc::Platform;
use vmalloc_lab::clock;

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
    let Rounds { records, complaints, after, memory } = rounds::run(machine, parameters, seed)?;
    let stats = Stages { before, after, purged: machine.counts() };
    let most_held = machine.most_held(parameters.nr_threads);
    let failed = records.iter().flat_map(|record| &record.cases).any(|case| case.failed != 0);
    Ok(Report {
        parameters: parameters.clone(),
        strategy: options.machine.strategy,
        seed,
        machine: machine.facts(),
        most_held: most_held.map(|most| most.areas),
        held_back_by: most_held.map(|most| most.by),
        clock: clock::NAME,
        workers: records,
        stats,
        memory,
        ok: complaints.is_empty() && !failed,
        complaints,
    })
}
