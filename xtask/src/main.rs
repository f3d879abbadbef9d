//! Chores of this repository, run as `cargo xtask <chore>`.

mod instructions;

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
    Instructions(instructions::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().chore {
        Chore::Instructions(args) => instructions::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
