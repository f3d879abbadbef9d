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

use crate::process;
use anyhow::Result;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Run programs of others under a preload library, and compare with runs without it
///
/// Each program runs without the library, with it at a threshold of 4,096 bytes, and with it as it is by default. A
/// difference is a failure. Programs that are not installed are told. With --bench, what the loads cost under glibc,
/// this library, this library with a budget of 16 MiB, jemalloc, mimalloc and tcmalloc is measured instead: medians, in
/// one run, and at the end peaks, their means, and the loads above the limits. xtask/src/preload/loads.toml has the loads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A part of the suites, in about a minute.
    #[arg(long)]
    quick: bool,
    /// Measure instead.
    #[arg(long)]
    bench: bool,
    /// Rounds of a measurement.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let library = build("vmalloc-preload", "libvmalloc_malloc.so")?;
    if args.bench { bench::run(&library, args) } else { suites::run(&library, args, &suites::RUNS) }
}

/// Builds the library of a package. Returns its path.
fn build(package: &str, library: &str) -> Result<PathBuf> {
    process::finish(Command::new("cargo").args(["build", "--quiet", "--release", "--package", package]))?;
    Ok(process::folder("release")?.join(library))
}

/// Returns the folder for what the runs make.
fn scratch() -> Result<PathBuf> {
    process::folder("preload")
}

/// Returns a command under a library, or none, with some settings.
fn under(library: Option<&Path>, program: impl AsRef<OsStr>, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.envs(settings.iter().copied()).stdin(Stdio::null());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    command
}
