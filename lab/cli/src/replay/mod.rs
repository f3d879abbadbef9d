//! `vmalloc-lab replay`: what a trace says was allocated and freed, done again by designs of address
//! allocators.
//!
//! ```text
//!   options ──► inputs ──input──► a script and an account of each ──► every design ──report──► text, JSON
//! ```

mod input;
mod report;
mod spans;
mod sparkline;
mod table;

use crate::args::ReplayOptions;
use crate::error::{Exit, Failure};
use crate::output;
use crate::progress::watched;
use input::Input;
use report::{InputReport, Report};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use table::write;
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::{self, Outcome, Purges, Script};

/// Runs the command.
pub(crate) fn run(options: &ReplayOptions, json: bool) -> Result<Exit, Failure> {
    let designs = designs(&options.design)?;
    let mut inputs = Vec::new();
    for input in &Input::all(options)? {
        inputs.extend(replay_one(options, &designs, input)?);
    }
    let report = Report::new(options.purges.into(), inputs);
    report.warn();
    output::tell("replay", &report, &report.to_string(), json).map(|()| Exit::of(report.ok))
}

/// Returns the designs of these names, each once; the product's own where none is named.
fn designs(words: &[String]) -> Result<Vec<Name>, Failure> {
    let mut designs = Vec::new();
    for word in words {
        match word.parse() {
            Ok(name) => designs.push(name),
            Err(_) if word == "all" => designs.extend(Name::ALL),
            Err(error) => return Err(Failure::new(format!("{error}, and all"))),
        }
    }
    let mut seen = HashSet::new();
    designs.retain(|name| seen.insert(*name));
    Ok(if designs.is_empty() { vec![Name::Vmalloc] } else { designs })
}

/// Replays a trace on every design, with each kind of purges.
fn replay_one(options: &ReplayOptions, designs: &[Name], input: &Input) -> Result<Vec<InputReport>, Failure> {
    let (read, scripts) = input.compile(options)?;
    let report = |(&purges, script): (&Purges, &_)| {
        let outcome = |&design: &_| outcome(script, design);
        let outcomes = designs.iter().map(outcome).collect::<Result<_, Failure>>()?;
        Ok(InputReport::new(read.clone(), purges, script, outcomes))
    };
    options.purges.purges().iter().zip(&scripts).map(report).collect()
}

fn outcome(script: &Script, design: Name) -> Result<Outcome, Failure> {
    let done = AtomicU64::new(0);
    let work = || replay::replay(script, design, &done);
    // Relaxed: for people to look at.
    watched("steps", replay::steps(script), &|| done.load(Ordering::Relaxed), work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_taken_by_name_and_once() {
        let named = |words: &[&str]| designs(&words.iter().map(|&word| word.into()).collect::<Vec<_>>());
        assert_eq!(named(&[]), Ok(vec![Name::Vmalloc]));
        assert_eq!(named(&["all", "vmalloc"]), Ok(Name::ALL.to_vec()));
        assert_eq!(named(&["nodes", "augmented", "nodes"]), Ok(vec![Name::Nodes, Name::Augmented]));
    }
}
