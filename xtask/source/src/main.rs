//! Chores that read the sources of this repository: `cargo xtask api`, `check`, `header` and `provenance` run them.

mod api;
mod check;
mod header;
mod provenance;

use clap::{Parser, Subcommand};
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
    Api(api::Args),
    Check(check::Args),
    Header(header::Args),
    Provenance(provenance::Args),
}

fn main() -> ExitCode {
    let done: Result<(), Box<dyn std::error::Error>> = match Args::parse().chore {
        Chore::Api(args) => api::run(&args).map_err(Into::into),
        Chore::Check(args) => check::run(&args).map_err(Into::into),
        Chore::Header(args) => header::run(&args).map_err(Into::into),
        Chore::Provenance(args) => provenance::run(&args).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
