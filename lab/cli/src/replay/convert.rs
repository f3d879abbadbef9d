//! Writing a trace in the compact format.

use super::Stop;
use super::input::Trace;
use super::plan::Plan;
use crate::error::{Exit, Failure};
use crate::output::{self, unwritten};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use vmalloc_lab::trace::compact::Writer;

/// The converted trace.
#[derive(Debug, Serialize)]
struct Written {
    input: Trace,
    written: String,
    events: u64,
    bytes: u64,
}

/// Converts the only input. A file that is not whole does not stay.
pub(super) fn run(plan: &Plan, path: &Path, json: bool) -> Result<Exit, Stop> {
    let file = File::create(path).map_err(|error| unwritten(path, error))?;
    let written = write(plan, path, file);
    if written.is_err() {
        // What failed is told; that a piece of it stays is not worth more.
        let _ = std::fs::remove_file(path);
    }
    let written = written?;
    let Written { input, written: to, events, bytes } = &written;
    let text = format!("{}Wrote {events} events, {bytes} bytes, to {to}\n", input.told());
    output::tell("replay", &written, &text, json)?;
    Ok(Exit::Success)
}

fn write(plan: &Plan, path: &Path, file: File) -> Result<Written, Stop> {
    let failed = |error: std::io::Error| unwritten(path, error);
    let mut writer = Writer::new(BufWriter::new(file)).map_err(failed)?;
    // The plan was checked: there is one.
    let Some(input) = plan.inputs.first() else { return Err(Failure::new("no trace").into()) };
    let input = input.read(plan.damage, |event| writer.push(event).map_err(failed))?;
    let (_, events) = writer.finish().map_err(failed)?;
    let bytes = std::fs::metadata(path).map_or(0, |data| data.len());
    Ok(Written { input, written: path.display().to_string(), events, bytes })
}
