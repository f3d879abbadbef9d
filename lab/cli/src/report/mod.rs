//! `vmalloc report`: all designs of the lab side by side, as one page that needs nothing else.
//!
//! ```text
//!   options ──measure──► Data ──┬──► JSON
//!                               ├── findings ─► sentences: titles, and what is printed
//!                               └── page ─► figures ─┬─ plot          lines and histograms, by plotters
//!                                                    ├─ lab's picture  maps of address spaces
//!                                                    └─ tables
//! ```
//!
//! The page has its style, its script and its plots inside. A design has a colour and dashes by its
//! place among all designs, the same in every figure.

mod data;
mod figures;
mod findings;
mod page;
mod plot;
mod tables;
mod units;

use crate::args::ReportOptions;
use crate::error::{Exit, Failure};
use crate::output::{self, OutFile};
use data::Data;
use std::path::PathBuf;

/// Where the page goes, unless told otherwise.
const FILE: &str = "vmalloc-report.html";

/// Runs the command.
pub(crate) fn run(options: &ReportOptions, json: bool) -> Result<Exit, Failure> {
    // With JSON asked for there is a page only by its name.
    let path = options.out.clone().or_else(|| (!json).then(|| PathBuf::from(FILE)));
    let file = path.map(|path| OutFile::create(&path)).transpose()?;
    let data = Data::measure(options)?;
    let mut told = findings::text(&data);
    if let Some(file) = file {
        told += &format!("Written to {}\n", file.path.display());
        file.write(page::page(&data).as_bytes())?;
    }
    output::tell("report", &data, &told, json).map(|()| Exit::Success)
}

#[cfg(test)]
mod tests;
