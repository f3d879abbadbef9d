//! Chores of this repository, run as `cargo xtask <chore>`.

mod api;
mod check;
mod instructions;
mod kernel;
mod miri;
mod nightly;
mod qemu;
mod results;
mod sanitize;
mod soak;
mod targets;

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
    Instructions(instructions::Args),
    Miri(miri::Args),
    Qemu(qemu::Args),
    Results(results::Args),
    Sanitize(sanitize::Args),
    Soak(soak::Args),
    Targets(targets::Args),
}

fn main() -> ExitCode {
    let done: Result<(), Box<dyn std::error::Error>> = match Args::parse().chore {
        Chore::Api(args) => api::run(&args).map_err(Into::into),
        Chore::Check(args) => check::run(&args).map_err(Into::into),
        Chore::Instructions(args) => instructions::run(&args).map_err(Into::into),
        Chore::Miri(args) => miri::run(&args).map_err(Into::into),
        Chore::Qemu(args) => qemu::run(&args).map_err(Into::into),
        Chore::Results(args) => results::run(&args).map_err(Into::into),
        Chore::Sanitize(args) => sanitize::run(&args).map_err(Into::into),
        Chore::Soak(args) => soak::run(&args).map_err(Into::into),
        Chore::Targets(args) => targets::run(&args).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
