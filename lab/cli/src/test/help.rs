//! The help of `vmalloc-lab test` beyond its options, and the table of cases.

use super::preset::{DEFAULT_LOOPS, PRESETS};
use crate::cases::CASES;
use crate::error::Failure;
use crate::output;
use std::fmt::Write;

/// The words, and the cases.
pub(crate) fn after_help() -> String {
    let mut text = String::from("Presets, which come first and may be followed by parameters:\n");
    for preset in &PRESETS {
        put(&mut text, format_args!("  {:<12} {}\n", preset.name, preset.sets));
    }
    put(&mut text, format_args!("Without any word: performance.\n\n"));
    put(&mut text, format_args!("{}", parameters()));
    put(&mut text, format_args!("\nCases, by their bits:\n{}", table()));
    text.push_str(CLOSING);
    text
}

fn parameters() -> String {
    format!(
        "\
Parameters, as KEY=VALUE, decimal, 0x hexadecimal, or CPUs for their number:
  nr_threads             workers, each a thread, on one shared space (1 to 65535; default 1)
  sequential_test_order  1: cases in the order of their bits; 0: each worker shuffles them (default 0)
  test_repeat_count      how often each case is run (default 1)
  test_loop_count        loops of a run (default {DEFAULT_LOOPS}: a program asks the kernel for its pages, so
                         Linux's default of 1000000 would take many minutes)
  nr_pages               pages an area of fix_size_alloc_test and no_block_alloc_test, and frames a mapping of
                         vm_map_ram_test (default 1)
  use_huge               1: fix_size_alloc_test asks for huge pages, and has them where there is room for one
                         and the machine has one (default 0)
  run_test_mask          the cases to run, a sum of bits (default: all)
  seed                   repeats a shuffle and the random sizes (default: random, and printed)
"
    )
}

const CLOSING: &str = "
Names of cases may be given instead of run_test_mask. The avg of a summary line is microseconds a run, all loops
and what is held included. A refusal that is expected is not counted as failed, but told behind the line as xfailed:
of align_shift_alloc_test, of no_block_alloc_test where only waiting would help, and of vm_map_ram_test where addresses
are too few for frames. pcpu_alloc_test does the same whatever test_loop_count is, and takes fewer groups where all
workers would hold more than 4 million areas. After the run the space is verified, purged, and must be whole again,
and every frame given back.

Exit codes: 0 all went well, 1 a test failed or the space was not whole, 2 bad usage or environment.";

fn table() -> String {
    let mut text = String::new();
    for case in &CASES {
        put(&mut text, format_args!("  {:>5}  {:<30} {}\n", case.bit, case.name, case.about));
    }
    text
}

/// Writing to a string can't fail.
fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(part);
}

/// Prints the table of cases.
pub(super) fn list(json: bool) -> Result<(), Failure> {
    if json { output::json(&serde_json::json!({ "cases": &CASES[..] })) } else { output::text(&table()) }
}
