//! `cargo xtask preload`: programs of others under `libvmalloc_malloc.so`.

mod bench;
mod measure;
mod programs;
mod python;
mod redis;
mod sources;
mod suites;
mod summary;
mod tools;

use crate::words::Words;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const HELP: &str = "\
Run programs of others under a preload library, and compare with runs without it

Each program runs without the library, with it at a threshold of 4,096 bytes, and with it as it is by default. A
difference is a failure. Programs that are not installed are told. With --bench, what the loads cost under glibc,
this library, this library with a budget of 16 MiB, jemalloc, mimalloc and tcmalloc is measured instead: medians, in
one run, and at the end peaks, their means, and the loads above the limits. xtask/src/preload/loads.toml has the loads.

  --quick      A part of the suites, in about a minute
  --bench      Measure instead
  --rounds N   Rounds of a measurement
  --only NAME  Only what has this in its name";

/// What was asked for.
pub(crate) struct Args {
    /// A part of the suites, in about a minute
    quick: bool,
    /// Measure instead
    bench: bool,
    /// Rounds of a measurement
    rounds: usize,
    /// Only what has this in its name
    only: String,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self {
            quick: words.has("--quick"),
            bench: words.has("--bench"),
            rounds: words.value("--rounds", 5)?,
            only: words.value("--only", String::new())?,
        };
        words.end()?;
        Ok(args)
    }
}

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    let library = build("vmalloc-preload", "libvmalloc_malloc.so")?;
    if args.bench { bench::run(&library, args) } else { suites::run(&library, args, &suites::RUNS) }
}

/// Builds the library of a package. Returns its path.
fn build(package: &str, library: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let words = ["build", "--quiet", "--release", "--package", package];
    let status = Command::new("cargo").args(words).status().context("can't run cargo")?;
    if !status.success() {
        bail!("the library can't be built");
    }
    std::path::absolute(Path::new(&target).join("release").join(library)).context("no path to the library")
}

/// Returns the folder for what the runs make.
fn scratch() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = Path::new(&target).join("preload");
    let made = std::fs::create_dir_all(&folder).and_then(|()| std::path::absolute(&folder));
    made.context("can't make a folder")
}
