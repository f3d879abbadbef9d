//! `vmalloc-lab reproduce`: the published results, measured again on this machine, with the published
//! figures beside them.

mod report;

use crate::args::ReproduceOptions;
use crate::error::{Exit, Failure};
use crate::output;
use crate::progress::watched;
use report::Report;
use vmalloc_lab::reproduce::{Effort, Figure, Progress, Verdict};

/// Runs the command.
pub(crate) fn run(options: &ReproduceOptions, json: bool) -> Result<Exit, Failure> {
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut figures = options.figures.clone();
    figures.sort_unstable();
    figures.dedup();
    if figures.is_empty() {
        figures = Figure::ALL.to_vec();
    }
    let progress = Progress::default();
    let all = figures.iter().map(|figure| figure.steps(effort)).sum();
    let run = || figures.iter().map(|figure| figure.run(effort, &progress)).collect();
    let report = Report::new(watched("measurements", all, &|| progress.done(), run)?);
    output::tell("reproduce", &report, &report.to_string(), json)
        .map(|()| Exit::of(report.verdict != Verdict::NotReproduced))
}

/// Reads the name of a figure.
pub(crate) fn figure(word: &str) -> Result<Figure, &'static str> {
    word.parse().map_err(|_| "one of f1, f2, f3, f4, f5")
}
