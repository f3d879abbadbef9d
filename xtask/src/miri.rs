//! `cargo xtask miri`: the unsafe code and the orders of atomics under an interpreter that sees undefined behaviour.

use crate::step::{Step, step};
use crate::{steps, toolchain};
use anyhow::Result;

/// Run the tests that Miri can run, and those of two threads under several of its seeds
///
/// The unit tests of the map, the core, short mappings, the platforms, pools, allocators and sub-spaces run once, with the borrow checks. The tests of
/// a whole space used by two threads run once for each seed, without the borrow checks, which are slow: a seed chooses where threads
/// are interrupted, and which of the values that weak memory allows a load sees. Two of these run at a time. Output and a
/// report go to target/miri. Installs Miri by rustup where it may.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds for the tests of two threads.
    #[arg(long, default_value_t = 4)]
    seeds: u32,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u32,
    /// Run the tests of two threads alone.
    #[arg(long)]
    threads_only: bool,
    /// Build them, and run nothing.
    #[arg(long)]
    build_only: bool,
}

/// The longest part takes an hour for a thousand seeds.
const LIMIT_S: u64 = 6 * 3600;
const MIRI: &str = "cargo +nightly miri test --target-dir target/miri";

/// Tests that run together: what they are, and arguments of `cargo miri test`.
type Part = (&'static str, &'static str);

/// Each runs once. The first takes as long as all others together, and Miri is one thread.
const UNITS: [Part; 9] = [
    ("unit tests of the core", "-p vmalloc --lib"),
    ("unit tests of the map", "-p vmalloc-map --lib"),
    ("unit tests of short mappings", "-p vmalloc-short --lib"),
    ("unit tests of the Linux platform", "-p vmalloc-linux --lib"),
    ("unit tests of stacks", "-p vmalloc-stacks --lib"),
    ("unit tests of slots", "-p vmalloc-slots --lib"),
    ("unit tests of allocators", "-p vmalloc-malloc --lib"),
    ("unit tests of sub-spaces", "-p vmalloc-subspaces --lib"),
    ("unit tests of page tables", "-p vmalloc-tables --lib"),
];

/// Each runs once a seed.
const THREADS: [Part; 4] = [
    ("two threads on one space", "-p vmalloc --test all two_threads::"),
    ("two threads on one pool of slots", "-p vmalloc-slots --test all threads::"),
    ("threads on what the Linux platform shares", "-p vmalloc-linux --lib -- futex:: watched::"),
    ("threads on one magazine", "-p vmalloc-stacks --lib -- magazine::"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Err(reason) = toolchain::provide("miri") {
        return steps::nothing_ran("Miri", reason);
    }
    let (from, to) = (args.from, args.from.saturating_add(args.seeds));
    let seeds = format!(" -Zmiri-disable-stacked-borrows -Zmiri-many-seeds={from}..{to}");
    let units = UNITS.iter().filter(|_| !args.threads_only).map(|part| test(part, "", args));
    let all: Vec<Step> = units.chain(THREADS.iter().map(|part| test(part, &seeds, args))).collect();
    steps::run("miri", &all, LIMIT_S, None)
}

fn test((name, words): &Part, more: &str, args: &Args) -> Step {
    let run = if args.build_only { "--no-run" } else { "" };
    // Addresses become pointers again in the core, so provenance is exposed.
    let flags = format!("-Zmiri-permissive-provenance{more}");
    // Flags of the toolchain that runs this are for another one.
    step(*name, &format!("{MIRI} {run} {words}")).env("MIRIFLAGS", flags).env("RUSTFLAGS", "")
}
