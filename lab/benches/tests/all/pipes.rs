//! A reader that goes away ends a program with one line, not with a panic.

use std::process::{Command, Stdio};

/// Runs a program with each of the lines.
fn closed_pipe(program: &str, lines: &[&str]) {
    for line in lines {
        // Closed before the program starts, or it could be done writing first.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("the program was built");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.starts_with("error: can't write the output: "), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
    }
}

#[test]
fn programs_of_addresses_survive_a_closed_pipe() {
    let ranges = ["--quick W1 --only noop", "--quick W1 --only noop --json", "--quick --tail W1 --only noop"];
    closed_pipe(env!("CARGO_BIN_EXE_ranges"), &ranges);
    closed_pipe(env!("CARGO_BIN_EXE_threads"), &["--quick --rounds 1 1"]);
}

#[cfg(feature = "buffers")]
#[test]
fn programs_of_memory_survive_a_closed_pipe() {
    closed_pipe(env!("CARGO_BIN_EXE_memory"), &["--quick mappings", "--quick --json mappings"]);
    let buffers = ["--quick jemalloc", "--quick jemalloc --json", "--rss jemalloc"];
    closed_pipe(env!("CARGO_BIN_EXE_buffers"), &buffers);
}
