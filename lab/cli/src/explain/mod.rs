//! `vmalloc explain`: what an address is to a space in another process, or in a core dump.

mod story;

use crate::args::ExplainOptions;
use crate::error::{Exit, Failure};
use crate::output;
use serde::Serialize;
use std::path::Path;
use story::story;
use vmalloc_inspect::{CoreDump, Explanation, InspectError, Process, Source, Target};

/// The answer as JSON.
#[derive(Serialize)]
struct Report<'a> {
    target: &'a str,
    recorded_frees: Option<u64>,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Runs the command.
pub(crate) fn run(options: &ExplainOptions, json: bool) -> Result<Exit, Failure> {
    let addr = options.address;
    let (explanation, recorded_frees) =
        look(&options.target, addr).map_err(|error| Failure::new(error.to_string()))?;
    let report = Report { target: &options.target, recorded_frees, explanation: &explanation };
    output::tell("explain", &report, &story(&explanation, recorded_frees), json)?;
    Ok(Exit::of(explanation.place.is_some() || explanation.freed.is_some()))
}

/// Returns the answer, and how many frees were recorded so far, if any were.
fn look(target: &str, addr: u64) -> Result<(Explanation, Option<u64>), InspectError> {
    let source = open(target)?;
    let target = Target::find(&*source)?;
    Ok((target.explain(addr)?, target.recorded_frees()?))
}

/// Opens the process of that number, or the core dump of that name.
fn open(target: &str) -> Result<Box<dyn Source>, InspectError> {
    match target.parse() {
        Ok(pid) => Ok(Box::new(Process::open(pid)?)),
        Err(_) => Ok(Box::new(CoreDump::open(Path::new(target))?)),
    }
}
