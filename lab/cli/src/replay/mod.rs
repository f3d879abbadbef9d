//! `vmalloc replay`: what a trace says was allocated and freed, done again by designs of address
//! allocators.
//!
//! ```text
//!   options ──plan──► inputs ──input──► a script and an account of each ──► every design ──report──► text, JSON
//! ```

mod input;
mod plan;
mod report;
mod spans;
mod sparkline;
mod table;

use crate::args::ReplayOptions;
use crate::error::{Exit, Failure};
use crate::output;
use crate::progress::watched;
use input::Input;
use plan::Plan;
use report::{InputReport, Report};
use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use table::write;
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::{self, Outcome, Purges, Script};

/// Why a trace is not replayed to its end.
#[derive(Debug)]
enum Stop {
    /// It can't be.
    Failure(Failure),
    /// It is damaged, and that was not to be passed over.
    Damage(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Runs the command.
pub(crate) fn run(options: &ReplayOptions, json: bool) -> Result<Exit, Failure> {
    let plan = Plan::new(options)?;
    match replay_all(&plan, json) {
        Ok(exit) => Ok(exit),
        Err(Stop::Failure(failure)) => Err(failure),
        Err(Stop::Damage(line)) => {
            Failure::new(line).tell(json);
            Ok(Exit::Failed)
        }
    }
}

fn replay_all(plan: &Plan, json: bool) -> Result<Exit, Stop> {
    let mut inputs = Vec::new();
    for input in &plan.inputs {
        inputs.extend(replay_one(plan, input)?);
    }
    let report = Report::new(plan, inputs);
    report.warn();
    output::tell("replay", &report, &report.to_string(), json)?;
    Ok(Exit::of(report.ok))
}

/// Replays a trace on every design, with each kind of purges.
fn replay_one(plan: &Plan, input: &Input) -> Result<Vec<InputReport>, Stop> {
    let (read, scripts) = input.compile(plan)?;
    let report = |(&purges, script): (&Purges, &_)| {
        let outcome = |&design: &_| outcome(script, design);
        let outcomes = plan.designs.iter().map(outcome).collect::<Result<_, Failure>>()?;
        Ok(InputReport::new(read.clone(), purges, script, outcomes))
    };
    plan.purges.purges().iter().zip(&scripts).map(report).collect()
}

fn outcome(script: &Script, design: Name) -> Result<Outcome, Failure> {
    let done = AtomicU64::new(0);
    let work = || replay::replay(script, design, &done);
    // Relaxed: for people to look at.
    watched("steps", replay::steps(script), &|| done.load(Ordering::Relaxed), work)
}
