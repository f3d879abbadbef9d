//! The tests, examples and documentation that the crates were published with, on our stacks.
//!
//! The copies share a target directory, so one test after the other builds.

use coroutines::{cargo, our_generator, prepare, prepare_corosensei, prepare_generator};
use std::path::Path;
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs cargo, and returns how many tests passed.
fn run(folder: &Path, words: &[&str]) -> usize {
    let output = cargo(folder).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let summaries: Vec<_> = text.lines().filter(|line| line.starts_with("test result:")).collect();
    println!("{}: {words:?}\n{}", folder.display(), summaries.join("\n"));
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let counts = summaries.iter().filter_map(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    counts.sum()
}

#[test]
fn corosensei() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|failed| failed.into_inner());
    let folder = prepare_corosensei();
    assert_eq!(run(&folder, &["test", "--release"]), 27);
    for example in ["basic", "panic", "backtrace"] {
        run(&folder, &["run", "--release", "--example", example]);
    }
}

#[test]
fn generator() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|failed| failed.into_inner());
    let folder = prepare_generator();
    assert_eq!(run(&folder, &["test", "--release"]), 69);
    for example in ["cd", "fib", "get_yield", "lifetime", "number", "pipe", "range", "send", "yield_from"] {
        run(&folder, &["run", "--release", "--example", example]);
    }
}

#[test]
fn may() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|failed| failed.into_inner());
    prepare_generator();
    // Its examples of servers need TLS and more, so they are left out with what they need.
    let left_out = ["[[example]]", "profile", "dev-dependencies"];
    let folder = prepare(
        "may",
        "0.3.51",
        &left_out,
        &format!("[dev-dependencies]\ntempfile = \"3\"\n\n{}", our_generator()),
    );
    // Its `generator` is the copy, or nothing of ours would be among what it depends on.
    run(&folder, &["tree", "--invert", "vmalloc-stacks"]);
    let tests = ["test", "--release", "--lib", "--test", "lib", "--test", "cqueue", "--test", "local"];
    assert_eq!(run(&folder, &tests), 243);
}
