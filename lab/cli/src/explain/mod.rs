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
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Runs the command.
pub(crate) fn run(options: &ExplainOptions, json: bool) -> Result<Exit, Failure> {
    let addr = options.address;
    let explanation = open(&options.target)
        .and_then(|source| Target::find(&*source)?.explain(addr))
        .map_err(|error| Failure::new(error.to_string()))?;
    let report = Report { target: &options.target, explanation: &explanation };
    output::tell("explain", &report, &story(&explanation), json)?;
    Ok(Exit::of(explanation.place.is_some() || explanation.freed.is_some()))
}

/// Opens the process of that number, or the core dump of that name.
fn open(target: &str) -> Result<Box<dyn Source>, InspectError> {
    match target.parse() {
        Ok(pid) => Ok(Box::new(Process::open(pid)?)),
        Err(_) => Ok(Box::new(CoreDump::open(Path::new(target))?)),
    }
}
