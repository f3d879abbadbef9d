//! `cargo xtask mutants`: whether the tests notice small changes of the core. A package of its own does it.

use std::process::{Command, ExitStatus};
use thiserror::Error;

/// Run the tests against small changes of the core, and tell which no test notices
///
/// `cargo xtask mutants -- --help` tells of its options; words are parts of the names of mutants.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Why the tests could not be run, or what they did not notice.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("can't run cargo: {0}")]
    Run(#[from] std::io::Error),
    #[error("mutants: {0}")]
    Failed(ExitStatus),
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    let status = cargo.args(["run", "--quiet", "-p", "vmalloc-mutants", "--"]).args(&args.words).status()?;
    if status.success() { Ok(()) } else { Err(Error::Failed(status)) }
}
