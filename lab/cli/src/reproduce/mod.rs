//! `vmalloc reproduce`: the published results, measured again on this machine, with the published figures beside them.

mod report;

use crate::args::ReproduceOptions;
use crate::error::{Exit, Failure};
use crate::output;
use crate::progress::Wait;
use report::Report;
use std::sync::mpsc;
use vmalloc_lab::reproduce::{Effort, Figure, Outcome, Progress};

/// Runs the command.
pub(crate) fn run(options: &ReproduceOptions, json: bool) -> Result<Exit, Failure> {
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut figures = options.figures.clone();
    figures.sort_unstable();
    figures.dedup();
    if figures.is_empty() {
        figures = Figure::ALL.to_vec();
    }
    let report = Report::new(measure(&figures, effort)?);
    let written = if json { output::json(&report) } else { output::text(&report.to_string()) };
    written.map(|()| report.exit())
}

/// Measures on a thread of its own, and shows how far that is.
fn measure(figures: &[Figure], effort: Effort) -> Result<Vec<Outcome>, Failure> {
    let progress = Progress::default();
    let all = figures.iter().map(|figure| figure.steps(effort)).sum();
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        let work = || {
            // Dropped at the end, which is what the other side waits for.
            let _done: mpsc::Sender<()> = done;
            figures.iter().map(|figure| figure.run(effort, &progress)).collect()
        };
        let worker = scope.spawn(work);
        Wait { what: "measurements", all, done: &|_| progress.done(), limit: None }.wait(&finished);
        worker.join().map_err(|_| Failure::new("a design refused what it should not have"))
    })
}

/// A figure by its name.
pub(crate) fn figure(word: &str) -> Result<Figure, String> {
    let found = Figure::ALL.into_iter().find(|figure| figure.as_str().eq_ignore_ascii_case(word));
    found.ok_or_else(|| "one of f1, f2, f3, f4, f5".to_owned())
}
