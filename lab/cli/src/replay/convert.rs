//! Writing a trace in the compact format.

use super::Stop;
use super::input::Trace;
use super::plan::Plan;
use crate::error::{Exit, Failure};
use crate::output::{self, unwritten};
use serde::Serialize;
use std::fs::{File, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::Builder;
use vmalloc_lab::trace::compact::Writer;

/// The converted trace.
#[derive(Debug, Serialize)]
struct Written {
    input: Trace,
    written: String,
    events: u64,
    bytes: u64,
}

/// Converts the only input. The file is replaced when all of it is written, and stays as it was
/// where that fails. A device or a pipe is written to.
pub(super) fn run(plan: &Plan, path: &Path, json: bool) -> Result<Exit, Stop> {
    let failed = |error| unwritten(path, error);
    let written = match std::fs::metadata(path) {
        Ok(data) if !data.is_file() => write(plan, path, File::create(path).map_err(failed)?)?,
        data => {
            // Behind a link, the file that it leads to.
            let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            let folder = target.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            let new = Permissions::from_mode(0o666);
            let part = Builder::new().permissions(new).tempfile_in(folder).map_err(failed)?;
            if let Ok(data) = data {
                // As they were: a new file has them less those of the process's mask.
                part.as_file().set_permissions(data.permissions()).map_err(failed)?;
            }
            let written = write(plan, path, part.reopen().map_err(failed)?)?;
            part.persist(&target).map_err(|lost| failed(lost.error))?;
            written
        }
    };
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
    let (file, events) = writer.finish().map_err(failed)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    let bytes = file.metadata().map_or(0, |data| data.len());
    Ok(Written { input, written: path.display().to_string(), events, bytes })
}
