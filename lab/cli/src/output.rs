//! Output: to stdout all at once, to stderr a line at a time, and to files.

use crate::error::Failure;
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes `text`. A failed write, because the disk is full or the reader of a pipe went away,
/// is a failure.
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

/// Writes the result of a command: `text`, or with `json` an object that names the command, the
/// version and all of `object`.
pub(crate) fn tell(command: &str, object: &impl Serialize, text: &str, json: bool) -> Result<(), Failure> {
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

/// A file to write, which is there before the work begins: a user does not wait for one that can't
/// be written.
pub(crate) struct OutFile {
    pub(crate) path: PathBuf,
    file: File,
}

impl OutFile {
    /// Creates the file, or empties it.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| unwritten(path, error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes all of its content.
    pub(crate) fn write(mut self, content: &[u8]) -> Result<(), Failure> {
        self.file.write_all(content).map_err(|error| unwritten(&self.path, error))
    }
}

/// Returns whether both paths lead to one file that is there, by whatever name.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    identity(one).is_some_and(|known| identity(other) == Some(known))
}

/// Says that `path` can't be written, and why.
pub(crate) fn unwritten(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("can't write {}: {error}", path.display()))
}

/// Writes `text` to stderr; a failure to write it is ignored.
pub(crate) fn aside(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes `line` to stderr; a failure to write it is ignored.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "vmalloc: {line}");
}
