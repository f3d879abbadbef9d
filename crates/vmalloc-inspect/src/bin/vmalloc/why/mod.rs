//! `vmalloc why`: the sizes that a kernel refused, beside the holes and callers of its windows.
//!
//! ```text
//!   vmallocinfo, log ──► areas, refused sizes, windows ──report──► text, JSON
//! ```

mod report;

use crate::args::WhyOptions;
use crate::error::{Exit, Failure};
use crate::input::{self, name};
use crate::map::summary::{is_partial, remarked};
use crate::output;
use report::Report;
use std::collections::BTreeMap;
use vmalloc_inspect::program::vmallocinfo::{KernelLog, Refusal, Vmallocinfo};

/// Runs the command.
pub(crate) fn run(options: &WhyOptions, json: bool) -> Result<Exit, Failure> {
    let mut log = KernelLog::default();
    let path = options.listing.as_path();
    let info = Vmallocinfo::read_beside(input::open_text(path)?, &mut log)
        .map_err(|error| input::unreadable(path, &error))?;
    if info.entries.is_empty() {
        return Err(Failure::new(format!("{} has no line that is an area", name(path))));
    }
    if let Some(path) = &options.log {
        log.read(input::open_text(path)?).map_err(|error| input::unreadable(path, &error))?;
    }
    if let Some(bytes) = options.bytes {
        log.refused = [(Refusal { bytes, window: None }, 1)].into();
    }
    if let Some([start, end]) = options.window {
        log.windows = [("window".to_owned(), start..end)].into();
        let mut refused = BTreeMap::new();
        for (refusal, times) in std::mem::take(&mut log.refused) {
            *refused.entry(Refusal { window: None, ..refusal }).or_default() += times;
        }
        log.refused = refused;
    }
    if log.refused.is_empty() {
        let path = options.log.as_deref().unwrap_or(path);
        let line = "vmap allocation for size N failed";
        return Err(Failure::new(format!("{} has no line '{line}'; --bytes N takes its place", name(path))));
    }
    remarked(&info);
    let report = Report::new(&info, &log);
    report.hidden().into_iter().for_each(output::note);
    output::tell("why", &report, &report.to_string(), json)?;
    Ok(Exit::of(report.hidden().is_none() && !is_partial(&info)))
}
