//! `cargo xtask miri`: the unsafe code and the orders of atomics under an interpreter that sees undefined behaviour.

use crate::toolchain;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::thread;
use std::time::Instant;

/// Run the tests that Miri can run, and those of two threads under several of its seeds
///
/// The unit tests of the map, the core, short mappings, the Linux platform and stacks run once, with the borrow checks. The tests of
/// a whole space used by two threads run once for each seed, without the borrow checks, which are slow: a seed chooses where threads
/// are interrupted, and which of the values that weak memory allows a load sees. Two of these run at a time, and print
/// when they end. Installs Miri by rustup where it may.
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

/// Tests that run together: what they are, and arguments of `cargo miri test`.
type Part = (&'static str, &'static [&'static str]);

/// Each runs once. Addresses become pointers again in the core, so provenance is exposed.
const UNITS: [Part; 5] = [
    ("unit tests of the core", &["-p", "vmalloc", "--lib"]),
    ("unit tests of the map", &["-p", "vmalloc-map", "--lib"]),
    ("unit tests of short mappings", &["-p", "vmalloc-short", "--lib"]),
    ("unit tests of the Linux platform", &["-p", "vmalloc-linux", "--lib"]),
    ("unit tests of stacks", &["-p", "vmalloc-stacks", "--lib"]),
];

/// Each runs once a seed.
const THREADS: [Part; 4] = [
    ("two threads on one space", &["-p", "vmalloc", "--test", "all", "two_threads::"]),
    ("two threads on one pool of slots", &["-p", "vmalloc-slots", "--test", "all", "threads::"]),
    (
        "threads on what the Linux platform shares",
        &["-p", "vmalloc-linux", "--lib", "--", "rcu::", "futex::", "watched::"],
    ),
    ("threads on one magazine", &["-p", "vmalloc-stacks", "--lib", "--", "magazine::"]),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Err(reason) = toolchain::provide("miri") {
        vmalloc_harness::not_run("Miri", reason);
        return Ok(());
    }
    let (from, to) = (args.from, args.from.saturating_add(args.seeds));
    let seeds = format!(" -Zmiri-disable-stacked-borrows -Zmiri-many-seeds={from}..{to}");
    let threads = || THREADS.iter().try_for_each(|part| test(part, &seeds, args));
    if args.threads_only {
        return threads();
    }
    // The core takes as long as all others together, and Miri is one thread.
    let [core, others @ ..] = &UNITS;
    thread::scope(|scope| {
        let beside = scope.spawn(|| test(core, "", args));
        let others = others.iter().try_for_each(|part| test(part, "", args)).and_then(|()| threads());
        beside.join().expect("no part panics").and(others)
    })
}

fn test((what, words): &Part, more: &str, args: &Args) -> Result<()> {
    let start = Instant::now();
    let run = if args.build_only { &["--no-run"][..] } else { &[] };
    let output = Command::new("cargo")
        .args(["+nightly", "miri", "test", "--target-dir", "target/miri"])
        .args(run)
        .args(*words)
        .env("MIRIFLAGS", format!("-Zmiri-permissive-provenance{more}"))
        // Those of the toolchain that runs this are for another one.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .context("can't run cargo")?;
    // Whole, since two run at once.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        bail!("{what} under Miri: {}", output.status);
    }
    println!("{what} under Miri: passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
