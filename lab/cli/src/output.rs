//! What goes to stdout, all of it at once, and to stderr, a line at a time.

use crate::error::Failure;
use serde::Serialize;
use std::io::Write;

/// Writes `text`. That nobody took it, because the disk is full or the reader of a pipe went away, is a failure.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(format!("can't write the output: {error}")))
}

/// Writes `value` as one JSON object.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let object = serde_json::to_string_pretty(value);
    let object = object.map_err(|error| Failure::new(format!("can't write the output as JSON: {error}")))?;
    text(&format!("{object}\n"))
}

/// Writes `line` to stderr; when nobody reads it, it is dropped.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "vmalloc: {line}");
}
