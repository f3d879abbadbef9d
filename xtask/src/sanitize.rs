//! `cargo xtask sanitize`: tests of unsafe code under a sanitizer.

use crate::{process, steps, toolchain};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// Run the tests of the Linux platform, allocators, slots, sub-spaces and page tables under a sanitizer
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

/// The packages whose tests run: those with unsafe code that Linux alone can run, or that has tests of its own.
const PACKAGES: &str =
    "-p vmalloc-linux -p vmalloc-malloc -p vmalloc-slots -p vmalloc-subspaces -p vmalloc-tables";

/// Why tests can't run under a sanitizer, and which: the begin of a name, with its modules.
const SKIPPED: [(&str, &[&str]); 9] = [
    (
        "a sanitizer reserves terabytes of addresses and more mappings than the limit of the test allows",
        &[
            "environment::machine::at_the_limit_on_mappings_a_space_loses_nothing",
            "environment::machine::without_proc_the_limit_on_mappings_is_an_error",
            "family::limits::an_area_moves_or_stays_whole_at_the_limit",
            "global::a_block_outgrows_a_full_space",
            "limits::a_limit_on_address_space_",
            "narrow::slots_fill_",
            "os::gaps::tests::gaps_hold_nothing_of_the_program",
            "windows::a_span_lies_",
            "windows::spaces_open_",
            "windows::spans_lie_near_an_address_each_next_to_the_one_before",
            "limits::mprotect_guards_stop_before_the_limit_on_mappings",
            "limits::windows_stop_before_the_limit_on_mappings",
            "limits::limits_on_descriptors_and_files_refuse_frames_until_they_are_raised",
            "trap_means::at_the_limit_on_mappings_large_areas_are_refused_and_small_ones_work",
        ],
    ),
    (
        "a sanitizer ends the program when memory for its own books is refused",
        &[
            "limits::at_the_limit_growth_and_refusals_do_not_count_the_mappings_each_time",
            "limits::want_of_memory_maps_nothing_and_passes",
            "space::running_out_of_memory_empties_what_is_cached_and_loses_nothing",
            "environment::resources::where_data_is_short_everything_works_or_says_so",
        ],
    ),
    (
        "a sanitizer's shadow can't be locked",
        &[
            "environment::locked::a_program_that_locks_all_its_memory_goes_on",
            "environment::locked::a_child_of_a_program_with_locked_memory_goes_on",
            "environment::locked::an_unprivileged_program_that_locks_in_advance_is_told",
            "environment::locked::only_what_was_freed_is_unlocked",
            "environment::locked::where_nothing_can_be_unlocked_memory_goes_and_the_error_says_why",
            "environment::machine::a_locked_area_waits_for_a_mapping",
        ],
    ),
    (
        "it refuses system calls that a sanitizer makes as well",
        &[
            "environment::holes::a_hole_that_",
            "environment::holes::each_page_of_the_span_is_mapped_before_every_system_call",
            "environment::kernel::a_refusal_while_a_space_is_opened_ends_that_or_takes_nothing_away",
            "environment::kernel::mappings_that_are_refused_are_errors_and_lose_nothing",
        ],
    ),
    ("a sanitizer's own mappings are counted as well", &["mappings::slots_that_went_back_leave_no_mappings"]),
    ("a sanitizer's frames are larger", &["first_contact::calls_take_little_stack"]),
    (
        "the shadow of the thread sanitizer takes most addresses",
        &[
            "first_contact::a_thousand_default_spaces_",
            "linux::as_many_slots_can_be_had_as_the_span_has_room_for",
        ],
    ),
    (
        "a sanitizer's shadow is memory as well",
        &[
            "drain::what_a_space_holds_beyond_what_is_in_use_is_bounded_and_goes",
            "first_contact::an_idle_space_takes_little_memory",
            "space::a_space_with_one_area_takes_few_pages",
            "limits::a_refused_request_for_frames_costs_no_memory",
            "mappings::free_slots_keep_no_more_memory_than_the_bound_with_any_guards",
        ],
    ),
    ("valgrind runs no program with a sanitizer", &["tools::a_program_with_a_space_runs_under_valgrind"]),
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
    /// sanitizer, and a request that is too large is refused.
    fn options(self) -> (&'static str, String) {
        let both = "handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1:allocator_may_return_null=1";
        match self {
            Self::Address => {
                ("ASAN_OPTIONS", format!("{both}:detect_leaks=0:detect_stack_use_after_return=0"))
            }
            Self::Thread => {
                let suppressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tsan.txt");
                let options = format!("{both}:die_after_fork=0:suppressions={}", suppressions.display());
                ("TSAN_OPTIONS", options)
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // The thread sanitizer alone takes a standard library of its own.
    let provided = match args.sanitizer {
        Sanitizer::Address if toolchain::has("nightly") => Ok(()),
        _ => toolchain::provide("rust-src"),
    };
    if let Err(reason) = provided {
        return steps::nothing_ran("sanitizers", reason);
    }
    let tests = process::output(command(args).args(["--", "--list"]))?;
    for (reason, names) in SKIPPED {
        for name in names {
            let count =
                tests.lines().filter(|line| line.starts_with(name) && line.ends_with(": test")).count();
            ensure!(count != 0, "no test is named {name}, which is to be skipped");
            println!("without {count} of {name}: {reason}");
        }
    }
    let mut cargo = command(args);
    cargo.arg("--").args(&args.words);
    SKIPPED.iter().flat_map(|(_, names)| *names).for_each(|name| _ = cargo.args(["--skip", name]));
    process::finish(&mut cargo)
}

/// Returns the command that builds and runs the tests.
fn command(args: &Args) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args("+nightly test --no-fail-fast --lib --tests --target".split(' ')).arg(TARGET);
    cargo.args(PACKAGES.split(' '));
    if matches!(args.sanitizer, Sanitizer::Thread) {
        cargo.arg("-Zbuild-std");
    }
    let (variable, options) = args.sanitizer.options();
    cargo.env(variable, options).env("RUSTFLAGS", args.sanitizer.flags());
    cargo.env("CARGO_TARGET_DIR", format!("target/{}", args.sanitizer.name()));
    cargo
}
