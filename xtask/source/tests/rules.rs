//! The rules of this repository, which are told by its sources alone.

use std::path::Path;
use std::process::Command;

/// Runs a chore in the root of the repository.
fn holds(chore: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask-source")).arg(chore).current_dir(root).output();
    let output = output.expect("the program that was just built");
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "cargo xtask {chore}:\n{}", String::from_utf8_lossy(&told));
}

#[test]
fn sizes_follow_the_rules() {
    holds("check");
}

#[test]
fn the_header_follows_from_the_sources() {
    holds("header");
}
