//! Output: to stdout all at once, to stderr a line at a time.

use crate::program::error::Failure;
use serde::Serialize;
use std::io::Write;
use std::sync::OnceLock;

/// The name of the program, before each line on stderr.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Sets the name of the program, once.
pub(super) fn set_program(name: &str) {
    PROGRAM.get_or_init(|| name.to_owned());
}

/// Writes `text`. A failed write, because the disk is full or the reader of a pipe went away,
/// is a failure.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(format!("can't write the output: {error}")))
}

/// Writes `value` as one JSON object.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let object = serde_json::to_string_pretty(value);
    let object = object.map_err(|error| Failure::new(format!("can't write the output as JSON: {error}")))?;
    text(&format!("{object}\n"))
}

/// Writes the result of a command: `text`, or with `json` an object that names the command, the
/// version and all of `object`.
pub fn tell(command: &str, object: &impl Serialize, text: &str, json: bool) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Named<'a, T> {
        command: &'a str,
        version: &'static str,
        #[serde(flatten)]
        object: &'a T,
    }
    let version = env!("CARGO_PKG_VERSION");
    if json { self::json(&Named { command, version, object }) } else { self::text(text) }
}

/// Writes `text` to stderr; a failure to write it is ignored.
pub(super) fn aside(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes `line` to stderr; a failure to write it is ignored.
pub fn note(line: &str) {
    let program = PROGRAM.get().map_or("vmalloc", String::as_str);
    let _ = writeln!(std::io::stderr(), "{program}: {line}");
}
