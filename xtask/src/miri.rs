//! `cargo xtask miri`: the unsafe code and the orders of atomics under an interpreter that sees undefined behaviour.

use crate::toolchain;
use crate::words::Words;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::thread;
use std::time::Instant;

pub(crate) const HELP: &str = "\
Run the tests that Miri can run, and those of two threads under several of its seeds

The unit tests of the core, of the Linux platform and of stacks run once, with the borrow checks. The tests of a whole space
used by two threads run once for each seed, without the borrow checks, which are slow: a seed chooses where threads
are interrupted, and which of the values that weak memory allows a load sees. Two of these run at a time, and print
when they end. Installs Miri by rustup where it may.

  --seeds N       Seeds for the tests of two threads
  --from N        The first of them
  --threads-only  Run the tests of two threads alone
  --build-only    Build them, and run nothing";

/// What was asked for: see `HELP`.
pub(crate) struct Args {
    seeds: u32,
    from: u32,
    threads_only: bool,
    build_only: bool,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self {
            seeds: words.value("--seeds", 4)?,
            from: words.value("--from", 0)?,
            threads_only: words.has("--threads-only"),
            build_only: words.has("--build-only"),
        };
        words.end()?;
        Ok(args)
    }
}

/// Tests that run together.
struct Part {
    what: &'static str,
    /// Arguments of `cargo miri test`.
    words: &'static [&'static str],
    flags: &'static str,
}

/// Each runs once. Addresses become pointers again in the core, so provenance is exposed.
const UNITS: [Part; 4] = [
    Part {
        what: "unit tests of the core",
        words: &["-p", "vmalloc", "--lib"],
        flags: "-Zmiri-permissive-provenance",
    },
    Part {
        what: "unit tests of short mappings",
        words: &["-p", "vmalloc-short", "--lib"],
        flags: "-Zmiri-permissive-provenance",
    },
    Part {
        what: "unit tests of the Linux platform",
        words: &["-p", "vmalloc-linux", "--lib"],
        flags: "-Zmiri-permissive-provenance",
    },
    Part {
        what: "unit tests of stacks",
        words: &["-p", "vmalloc-stacks", "--lib"],
        flags: "-Zmiri-permissive-provenance",
    },
];

/// Each runs once a seed.
const THREADS: [Part; 4] = [
    Part {
        what: "two threads on one space",
        words: &["-p", "vmalloc", "--test", "all", "two_threads::"],
        flags: "-Zmiri-permissive-provenance -Zmiri-disable-stacked-borrows",
    },
    Part {
        what: "two threads on one pool of slots",
        words: &["-p", "vmalloc-slots", "--test", "all", "threads::"],
        flags: "-Zmiri-permissive-provenance -Zmiri-disable-stacked-borrows",
    },
    Part {
        what: "threads on what the Linux platform shares",
        words: &["-p", "vmalloc-linux", "--lib", "--", "rcu::", "futex::", "watched::"],
        flags: "-Zmiri-permissive-provenance -Zmiri-disable-stacked-borrows",
    },
    Part {
        what: "threads on one magazine",
        words: &["-p", "vmalloc-stacks", "--lib", "--", "magazine::"],
        flags: "-Zmiri-permissive-provenance -Zmiri-disable-stacked-borrows",
    },
];

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    if let Err(reason) = toolchain::provide("miri") {
        vmalloc_harness::not_run("Miri", reason);
        return Ok(());
    }
    let (from, to) = (args.from, args.from.saturating_add(args.seeds));
    let seeds = format!(" -Zmiri-many-seeds={from}..{to}");
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

fn test(part: &Part, more: &str, args: &Args) -> Result<()> {
    let start = Instant::now();
    let run = if args.build_only { &["--no-run"][..] } else { &[] };
    let output = Command::new("cargo")
        .args(["+nightly", "miri", "test", "--target-dir", "target/miri"])
        .args(run)
        .args(part.words)
        .env("MIRIFLAGS", format!("{}{more}", part.flags))
        // Those of the toolchain that runs this are for another one.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .context("can't run cargo")?;
    // Whole, since two run at once.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        bail!("{} under Miri: {}", part.what, output.status);
    }
    println!("{} under Miri: passed in {:.0} s", part.what, start.elapsed().as_secs_f64());
    Ok(())
}
