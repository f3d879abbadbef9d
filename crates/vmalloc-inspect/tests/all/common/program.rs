//! Running a program: that of this crate, or of the lab, whose tests have this file as well.

use crate::{NAME, PROGRAM};
use serde_json::Value;
use std::io::ErrorKind::BrokenPipe;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The program, to be run with the words of `line`.
pub(crate) fn program(line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace());
    command
}

/// Runs the program with the words of `line`.
pub(crate) fn run(line: &str) -> Output {
    program(line).output().expect("the program was built")
}

/// Runs the program on `input` as stdin.
pub(crate) fn piped(line: &str, input: impl AsRef<[u8]>) -> Output {
    let mut command = program(line);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    // A program that refuses its words may end before it reads.
    let written = child.stdin.take().expect("a pipe").write_all(input.as_ref());
    written.or_else(|error| if error.kind() == BrokenPipe { Ok(()) } else { Err(error) }).expect("a reader");
    child.wait_with_output().expect("an end")
}

/// Runs the program, which must succeed, and returns its text.
pub(crate) fn text(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The JSON it printed, and its exit code.
pub(crate) fn json(line: &str) -> (Value, Option<i32>) {
    let output = run(line);
    let value = serde_json::from_slice(&output.stdout);
    (value.unwrap_or_else(|error| panic!("{line}: {error}")), output.status.code())
}

/// Makes sure that `output` is one line on stderr with this reason, and this exit code.
pub(crate) fn assert_refused(output: &Output, code: i32, reason: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{reason}: {stderr}");
    let rest = stderr.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(": "));
    assert!(rest.is_some_and(|rest| rest.contains(reason)), "{reason}: {stderr}");
}
