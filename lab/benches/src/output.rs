//! Output of the programs. All errors are reported, for the reader of a pipe may go away.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Writes `text` and the end of a line to stdout.
///
/// # Errors
/// When it can't be written: the disk is full, or the reader of a pipe went away. `println!` would
/// panic.
pub fn line(text: &dyn fmt::Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush())
}

/// How a program ends whose output was or was not written: with the code 2 and a line on stderr if
/// it was not.
pub fn end(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format_args!("can't write the output: {error}")),
    }
}

/// Says why on stderr; a failure to write it is ignored.
pub fn fail(why: &dyn fmt::Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {why}");
    ExitCode::from(2)
}
