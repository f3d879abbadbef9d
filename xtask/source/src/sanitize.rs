//! `cargo xtask sanitize`: the tests of the Linux platform under a sanitizer.

use crate::nightly;
use std::path::Path;
use std::process::{Command, ExitStatus};
use thiserror::Error;

/// Run the tests of the Linux platform under the address or the thread sanitizer
///
/// With the nightly toolchain. The thread sanitizer takes a standard library that is built with it, and so its source,
/// which is installed by rustup where it may; what it says of that library alone is suppressed (xtask/source/tsan.txt).
#[derive(clap::Args)]
pub(crate) struct Args {
    sanitizer: Sanitizer,
    /// What `cargo test` takes behind `--`: a part of a test's name, for example
    #[arg(last = true)]
    words: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sanitizer {
    Address,
    Thread,
}

/// Why the tests could not be run, or that they failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("can't run cargo: {cause}")]
    Run { cause: std::io::Error },
    #[error("tests under the {name} sanitizer: {status}")]
    Failed { name: &'static str, status: ExitStatus },
}

/// The sanitizers are built for this target alone; naming it keeps them out of build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that no sanitizer can run, by a part of their name, and why.
const SKIPPED: [(&str, &str); 4] = [
    (
        "limit",
        "a sanitizer reserves terabytes of addresses and more mappings than the limit of the test allows",
    ),
    ("want_of_memory", "a sanitizer ends the program when memory for its own books is refused"),
    ("running_out_of_memory", "as above"),
    ("locks_all_its_memory", "a sanitizer's shadow can't be locked"),
];

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// Its settings, and in which variable. A child that touches a guard page has to end by the signal, as without a
    /// sanitizer.
    fn options(self) -> (&'static str, String) {
        let signals = "handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1";
        match self {
            Self::Address => {
                ("ASAN_OPTIONS", format!("{signals}:detect_leaks=0:detect_stack_use_after_return=0"))
            }
            Self::Thread => {
                let suppressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tsan.txt");
                let options = format!("{signals}:die_after_fork=0:suppressions={}", suppressions.display());
                ("TSAN_OPTIONS", options)
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if let Err(reason) = nightly::provide("rust-src") {
        println!("NOT RUN: {reason}");
        return Ok(());
    }
    SKIPPED
        .iter()
        .for_each(|(test, reason)| println!("NOT RUN: tests with {test:?} in their names: {reason}"));
    let name = args.sanitizer.name();
    let (variable, options) = args.sanitizer.options();
    let status = command(args)
        .env(variable, options)
        .env("RUSTFLAGS", format!("-Zsanitizer={name}"))
        .env("CARGO_TARGET_DIR", format!("target/{name}"))
        .status()
        .map_err(|cause| Error::Run { cause })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { name, status }) }
}

fn command(args: &Args) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([
        "+nightly",
        "test",
        "--no-fail-fast",
        "-p",
        "vmalloc-linux",
        "--lib",
        "--tests",
        "--target",
        TARGET,
    ]);
    if matches!(args.sanitizer, Sanitizer::Thread) {
        cargo.arg("-Zbuild-std");
    }
    cargo.arg("--").args(&args.words);
    SKIPPED.iter().for_each(|(test, _)| _ = cargo.args(["--skip", test]));
    cargo
}
