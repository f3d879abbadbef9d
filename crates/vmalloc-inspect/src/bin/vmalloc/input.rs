//! Files to read, and stdin.

use crate::error::Failure;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use vmalloc_inspect::program::decompress;

/// Opens the text of `path`, compressed or not; `-` is stdin.
pub(crate) fn open_text(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|error| unreadable(path, &error))?)
    };
    let (_, text) = decompress::open(source).map_err(|error| unreadable(path, &error))?;
    Ok(text)
}

/// That `path` can't be read, and why.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("can't read {}: {error}", path.display()))
}

/// How messages call `path`.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".into() } else { path.display().to_string() }
}
