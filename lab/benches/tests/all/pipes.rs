//! A reader that goes away ends a program with one line, not with a panic.

use std::process::{Command, Stdio};

fn closed_pipe(program: &str, line: &str) {
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

#[test]
fn ranges_survives_a_closed_pipe() {
    for line in ["--quick W1 --only noop", "--quick W1 --only noop --json"] {
        closed_pipe(env!("CARGO_BIN_EXE_ranges"), line);
    }
}

#[test]
fn threads_and_pairs_survive_a_closed_pipe() {
    for line in ["--quick --rounds 1 1", "--quick --rounds 1 1 --json"] {
        closed_pipe(env!("CARGO_BIN_EXE_threads"), line);
    }
    for line in ["--quick --runs 1 none", "--quick --runs 1 none --json"] {
        closed_pipe(env!("CARGO_BIN_EXE_pairs"), line);
    }
}

#[test]
fn contention_survives_a_closed_pipe() {
    for line in ["--quick 1", "--quick 1 --json"] {
        closed_pipe(env!("CARGO_BIN_EXE_contention"), line);
    }
}

#[cfg(feature = "buffers")]
#[test]
fn mappings_survives_a_closed_pipe() {
    for line in ["--quick", "--quick --json"] {
        closed_pipe(env!("CARGO_BIN_EXE_mappings"), line);
    }
}

#[cfg(feature = "buffers")]
#[test]
fn buffers_survives_a_closed_pipe() {
    for line in ["--quick jemalloc", "--quick jemalloc --json", "--rss jemalloc"] {
        closed_pipe(env!("CARGO_BIN_EXE_buffers"), line);
    }
}
