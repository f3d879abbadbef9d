//! `vmalloc-lab report`: all designs of the lab side by side, as tables, as JSON, and as one page with
//! plots that needs nothing else.
//!
//! ```text
//!   options ──measure, replay──► Data ──┬──► JSON
//!                                       ├── tables ─► text, also at the end of the page
//!                                       └── plot ──► lines, by plotters ─► page
//! ```

mod measure;
mod page;
mod plot;

use crate::args::ReportOptions;
use crate::error::{Exit, Failure};
use crate::output;
use crate::progress::watched;
use crate::replay::write;
use measure::{Budget, Curve};
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::{Compiler, Outcome, Purges, replay, steps};
use vmalloc_lab::table::{NONE, figure, table};
use vmalloc_lab::trace::Synthetic;
use vmalloc_lab::units::counted;

/// Where the page goes, unless told otherwise.
const FILE: &str = "vmalloc-report.html";
/// Measurements of a design, beside the steps of its replay.
const MEASUREMENTS: u64 = 2;

/// A report's numbers.
#[derive(Debug, Serialize)]
struct Data {
    cpus: usize,
    budget: Budget,
    designs: Vec<DesignData>,
    /// A made-up trace, on each design.
    replays: Vec<Outcome>,
}

/// The measurements of a design.
#[derive(Debug, Serialize)]
struct DesignData {
    name: &'static str,
    about: &'static str,
    live: Curve,
    /// Million pairs a second, by threads.
    threads: Vec<(u64, f64)>,
}

/// Runs the command.
pub(crate) fn run(options: &ReportOptions, json: bool) -> Result<Exit, Failure> {
    // With JSON asked for there is a page only by its name.
    let path = options.out.clone().or_else(|| (!json).then(|| PathBuf::from(FILE)));
    let file = path.map(|path| OutFile::create(&path)).transpose()?;
    let data = Data::measure(options)?;
    let mut told = data.to_string();
    if let Some(file) = file {
        let path = file.path.display().to_string();
        let is_plot = file.path.extension().is_some_and(|extension| extension == "svg");
        let content = if is_plot { page::live(&data) } else { page::page(&data, &told) };
        file.write(content.as_bytes())?;
        told += &format!("\nWritten to {path}\n");
    }
    output::tell("report", &data, &told, json).map(|()| Exit::Success)
}

/// A file to write, which is there before the work begins: a user does not wait for one that can't
/// be written.
struct OutFile {
    path: PathBuf,
    file: File,
}

impl OutFile {
    /// Creates the file, or empties it.
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| unwritten(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes all of its content.
    fn write(mut self, content: &[u8]) -> Result<(), Failure> {
        self.file.write_all(content).map_err(|error| unwritten(&self.path, &error))
    }
}

/// Says that `path` can't be written, and why.
fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("can't write {}: {error}", path.display()))
}

impl Data {
    fn measure(options: &ReportOptions) -> Result<Self, Failure> {
        let budget = if options.quick { Budget::QUICK } else { Budget::FULL };
        let budget = Budget { live_max: options.live_max.unwrap_or(budget.live_max), ..budget };
        let chosen = if options.design.is_empty() { Name::GENERATIONS.as_slice() } else { &options.design };
        let names: Vec<_> = Name::ALL.iter().copied().filter(|name| chosen.contains(name)).collect();
        let mut compiler = Compiler::new(Purges::Own);
        for event in Synthetic::new(budget.events, 0) {
            compiler.push(&event).map_err(|error| Failure::new(error.to_string()))?;
        }
        let (script, done) = (compiler.finish(), AtomicU64::new(0));
        let all = names.len() as u64 * (MEASUREMENTS + steps(&script));
        // Relaxed, here and below: for people to look at.
        let (designs, replays) = watched("measurements", all, &|| done.load(Ordering::Relaxed), || {
            let measure = |name| (DesignData::measure(name, &budget, &done), replay(&script, name, &done));
            names.into_iter().map(measure).unzip()
        })?;
        Ok(Self { cpus: vmalloc_lab::cpu::count(), budget, designs, replays })
    }
}

impl DesignData {
    fn measure(name: Name, budget: &Budget, done: &AtomicU64) -> Self {
        let (live, threads) = (measure::live(name, budget), measure::threads(name, budget));
        done.fetch_add(MEASUREMENTS, Ordering::Relaxed);
        Self { name: name.as_str(), about: name.about(), live, threads }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = |it: &DesignData| it.live.points.clone();
        writeln!(f, "{}\n", self.columns("ns a pair, by live areas", live))?;
        for DesignData { name, live, .. } in &self.designs {
            if let Some(reason) = &live.stopped {
                writeln!(f, "{name} stops: {reason}\n")?;
            }
        }
        let threads = |it: &DesignData| it.threads.clone();
        writeln!(f, "{}", self.columns("million pairs/s, by threads", threads))?;
        writeln!(f, "\nA made-up trace, replayed: {}", counted(self.budget.events, "event"))?;
        write(f, &self.replays)
    }
}

impl Data {
    /// A row for each design, and a column for each place at which one was measured.
    fn columns(&self, head: &str, points: impl Fn(&DesignData) -> Vec<(u64, f64)>) -> String {
        let places: std::collections::BTreeSet<_> =
            self.designs.iter().flat_map(&points).map(|point| point.0).collect();
        let row = |design: &DesignData| {
            let points = points(design);
            let cell = |place: &u64| points.iter().find(|point| point.0 == *place).map(|point| point.1);
            let cells = places.iter().map(|place| cell(place).map_or(NONE.to_owned(), figure));
            std::iter::once(design.name.to_owned()).chain(cells).collect()
        };
        let heads = places.iter().map(u64::to_string);
        let heads: Vec<_> = std::iter::once(head.to_owned()).chain(heads).collect();
        table("lr", &heads, self.designs.iter().map(row).collect())
    }
}
