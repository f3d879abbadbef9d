//! Files to read, and stdin.

use crate::error::Failure;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Opens the text of `path`; `-` is stdin. The one place where a packed file would be unpacked.
pub(crate) fn open_text(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

/// That `path` can't be read, and why.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("can't read {}: {error}", path.display()))
}
