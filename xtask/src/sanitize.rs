//! `cargo xtask sanitize`: the tests of the Linux platform under a sanitizer.

use crate::process;
use crate::toolchain;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Run the tests of the Linux platform under the address or the thread sanitizer
///
/// With the nightly toolchain. The thread sanitizer takes a standard library that is built with it, and so its source,
/// which is installed by rustup where it may; what it says of that library alone is suppressed (xtask/tsan.txt).
#[derive(clap::Args)]
pub(crate) struct Args {
    sanitizer: Sanitizer,
    /// What `cargo test` takes behind `--`: a part of a test's name, for example.
    #[arg(last = true)]
    words: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sanitizer {
    Address,
    Thread,
}

/// The sanitizers are built for this target alone; naming it keeps them out of build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that no sanitizer can run, by a part of their name, and why.
const SKIPPED: [(&str, &str); 21] = [
    (
        "_limit",
        "a sanitizer reserves terabytes of addresses and more mappings than the limit of the test allows",
    ),
    ("limits_on_descriptors", "as above"),
    ("want_of_memory", "a sanitizer ends the program when memory for its own books is refused"),
    ("running_out_of_memory", "as above"),
    ("locks_all_its_memory", "a sanitizer's shadow can't be locked"),
    ("a_hole_that_a_refused_move", "it refuses system calls that a sanitizer makes as well"),
    ("a_hole_that_refused", "as above"),
    ("each_page_of_the_span_is_mapped", "as above"),
    ("a_refusal_while_a_space_is_opened", "as above"),
    ("mappings_that_are_refused_are_errors", "as above; it waits for itself then"),
    ("where_data_is_short", "a sanitizer's books are data as well"),
    ("a_child_of_a_program_with_locked_memory", "a sanitizer's shadow can't be locked"),
    ("locks_in_advance_is_told", "as above"),
    ("only_what_was_freed_is_unlocked", "as above"),
    ("where_nothing_can_be_unlocked", "as above"),
    ("where_nothing_locked_can_be_dropped", "as above"),
    ("a_locked_area_waits_for_a_mapping", "as above"),
    ("calls_take_little_stack", "a sanitizer's frames are larger"),
    ("a_thousand_default_spaces", "the shadow of the thread sanitizer takes most addresses"),
    ("an_idle_space_takes_little_memory", "a sanitizer's shadow of the records is memory as well"),
    ("runs_under_valgrind", "valgrind runs no program with a sanitizer"),
];

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// The flags of the compiler.
    fn flags(self) -> &'static str {
        match self {
            Self::Address => "-Zsanitizer=address",
            Self::Thread => "-Zsanitizer=thread --cfg thread_sanitizer",
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

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Err(reason) = toolchain::provide("rust-src") {
        vmalloc_harness::not_run("sanitizers", reason);
        return Ok(());
    }
    SKIPPED
        .iter()
        .for_each(|(test, reason)| println!("without tests with {test:?} in their names: {reason}"));
    let name = args.sanitizer.name();
    let (variable, options) = args.sanitizer.options();
    let mut cargo = command(args);
    cargo.env(variable, options).env("RUSTFLAGS", args.sanitizer.flags());
    process::finish(cargo.env("CARGO_TARGET_DIR", format!("target/{name}")))
}

fn command(args: &Args) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args("+nightly test --no-fail-fast -p vmalloc-linux --lib --tests --target".split(' ')).arg(TARGET);
    if matches!(args.sanitizer, Sanitizer::Thread) {
        cargo.arg("-Zbuild-std");
    }
    cargo.arg("--").args(&args.words);
    SKIPPED.iter().for_each(|(test, _)| _ = cargo.args(["--skip", test]));
    cargo
}
