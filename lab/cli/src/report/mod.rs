//! `vmalloc report`: all designs of the lab side by side, as one page that needs nothing else.
//!
//! ```text
//!   options ──measure──► Data ──┬──► JSON
//!                               ├── findings ─► sentences: titles, and what is printed
//!                               └── page ─► figures ─┬─ plot ──┬─ frame, axis   lines
//!                                                    ├─ ridges ┘                histograms
//!                                                    ├─ lab's picture  maps of address spaces
//!                                                    └─ tables
//! ```
//!
//! The page has its style, its script and its plots inside. A design has a colour, a dash pattern and a mark by its place
//! among all designs ([`series`]), the same in every figure.

mod axis;
mod data;
mod figures;
mod findings;
mod frame;
mod page;
mod plot;
mod ridges;
mod series;
mod tables;
mod units;

use crate::args::ReportOptions;
use crate::error::{Exit, Failure};
use crate::output;
use data::Data;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the page goes, unless told otherwise.
const FILE: &str = "vmalloc-report.html";

/// Runs the command.
pub(crate) fn run(options: &ReportOptions, json: bool) -> Result<Exit, Failure> {
    // Before the run: nobody waits for a file that can't be written. Who asks for JSON gets a page only by its name.
    let path = options.out.clone().or_else(|| (!json).then(|| PathBuf::from(FILE)));
    let file = path.map(|path| create(&path).map(|file| (path, file))).transpose()?;
    let data = Data::measure(options)?;
    if let Some((path, file)) = &file {
        write(path, file, &page::page(&data))?;
    }
    let written = if json { output::json(&data) } else { output::text(&findings::text(&data)) };
    written?;
    if let (Some((path, _)), false) = (&file, json) {
        output::text(&format!("Written to {}\n", path.display()))?;
    }
    Ok(Exit::Success)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritten(path, &error))
}

fn write(path: &Path, mut file: &File, page: &str) -> Result<(), Failure> {
    file.write_all(page.as_bytes()).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("can't write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
