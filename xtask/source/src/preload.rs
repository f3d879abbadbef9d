//! `cargo xtask preload`: programs of others under `libvmalloc_malloc.so`, or `libvmalloc_mmap.so`.

mod bench;
mod maps;
mod measure;
mod programs;
mod python;
mod redis;
mod sources;
mod suites;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Run programs of others under a preload library, and compare with runs without it
///
/// Each program runs without the library, with it at a threshold of 4,096 bytes, and with it as it is by default. A
/// difference is a failure. Programs that are not installed are told. With --bench, what the loads cost under glibc,
/// this library, jemalloc, mimalloc and tcmalloc is measured instead: medians, in one run. With --mmap the library is
/// libvmalloc_mmap.so, beside the kernel's own mappings.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A part of the suites, in about a minute
    #[arg(long)]
    quick: bool,
    /// Measure instead
    #[arg(long)]
    bench: bool,
    /// The library that serves mmap
    #[arg(long)]
    mmap: bool,
    /// Rounds of a measurement
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
}

/// Why something could not be run, or what differs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("can't run {what}: {cause}")]
    Run { what: String, cause: std::io::Error },
    #[error("the library can't be built")]
    Build,
    #[error("{0} differences to the runs without the library")]
    Differences(usize),
    #[error("{0} runs of loads failed: their figures mean nothing")]
    Loads(usize),
    #[error("{what}: {why}")]
    Redis { what: &'static str, why: String },
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.mmap {
        let library = build("vmalloc-interpose", "libvmalloc_mmap.so")?;
        return if args.bench {
            maps::bench(&library, args)
        } else {
            suites::run(&library, args, &maps::RUNS)
        };
    }
    let library = build("vmalloc-preload", "libvmalloc_malloc.so")?;
    if args.bench { bench::run(&library, args) } else { suites::run(&library, args, &suites::RUNS) }
}

/// Builds the library of a package. Returns its path.
fn build(package: &str, library: &str) -> Result<PathBuf, Error> {
    let cause = |cause| Error::Run { what: "cargo build".into(), cause };
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let words = ["build", "--quiet", "--release", "--package", package];
    let status = Command::new("cargo").args(words).status().map_err(cause)?;
    if !status.success() {
        return Err(Error::Build);
    }
    std::path::absolute(Path::new(&target).join("release").join(library)).map_err(cause)
}

/// Returns the folder for what the runs make.
fn scratch() -> Result<PathBuf, Error> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = Path::new(&target).join("preload");
    let made = std::fs::create_dir_all(&folder).and_then(|()| std::path::absolute(&folder));
    made.map_err(|cause| Error::Run { what: "mkdir".into(), cause })
}
