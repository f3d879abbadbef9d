//! The list of what was not run.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

/// Notes that `what` was not run, and why.
///
/// The line goes to the standard error, and to the end of the file that `VMALLOC_NOT_RUN` names.
/// The capture of tests hides the first; `.ci/run` prints the file last, and fails if something is
/// in it that `.ci/may-be-missing` does not list.
///
/// # Panics
/// When the file can't be written.
pub fn not_run(what: impl Display, why: impl Display) {
    let line = format!("{what}: {why}").replace('\n', " ");
    eprintln!("NOT RUN: {line}");
    let Some(path) = env::var_os("VMALLOC_NOT_RUN") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One call, so that lines of several processes don't mix.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("VMALLOC_NOT_RUN={}: {error}", path.display()));
}

/// Returns true if a program of the system is installed, or notes that `what` was not run.
pub fn is_installed(program: &str, what: impl Display) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        not_run(what, format_args!("{program} is not installed"));
    }
    found
}
