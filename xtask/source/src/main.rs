//! Chores that read the sources of this repository: `cargo xtask check` and `header` run them.

mod check;
mod header;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    Check(check::Args),
    Header(header::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().chore {
        Chore::Check(args) => check::run(&args),
        Chore::Header(args) => header::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Reads a file.
fn read(path: impl AsRef<Path>) -> Result<String> {
    fs::read_to_string(&path).with_context(|| cannot("read", path.as_ref()))
}

fn cannot(act: &str, path: &Path) -> String {
    format!("cannot {act} {}", path.display())
}
