//! `cargo xtask preload`: programs of others under `libvmalloc_malloc.so`, which a client runs.

use crate::{clients, process};
use anyhow::Result;

/// Run programs of others under a preload library, and compare with runs without it
///
/// `clients/preloaded-programs` does it. With --bench, what loads cost under several allocators is measured instead.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure instead.
    #[arg(long)]
    bench: bool,
    /// What the program takes: --only NAME, and others that `-- --help` tells.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let program = if args.bench { "bench" } else { "suites" };
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--release", "--locked", "--bin", program, "--"]).args(&args.words);
    cargo.current_dir("clients/preloaded-programs").env("CARGO_TARGET_DIR", clients::target());
    process::finish(&mut cargo)
}
