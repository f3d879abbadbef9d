//! Chores of this repository, run as `cargo xtask <chore>`.

mod api;
mod c_library;
mod check;
mod clients;
mod header;
mod instructions;
mod kernel;
mod kernels;
mod miri;
mod nightly;
mod preload;
mod provenance;
mod python;
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
    CLibrary(c_library::Args),
    Check(check::Args),
    Clients(clients::Args),
    Header(header::Args),
    Instructions(instructions::Args),
    Kernels(kernels::Args),
    Miri(miri::Args),
    Preload(preload::Args),
    Provenance(provenance::Args),
    Python(python::Args),
    Qemu(qemu::Args),
    Results(results::Args),
    Sanitize(sanitize::Args),
    Soak(soak::Args),
    Targets(targets::Args),
}

fn main() -> ExitCode {
    let done: Result<(), Box<dyn std::error::Error>> = match Args::parse().chore {
        Chore::Api(args) => api::run(&args).map_err(Into::into),
        Chore::CLibrary(args) => c_library::run(&args).map_err(Into::into),
        Chore::Check(args) => check::run(&args).map_err(Into::into),
        Chore::Clients(args) => clients::run(&args).map_err(Into::into),
        Chore::Header(args) => header::run(&args).map_err(Into::into),
        Chore::Instructions(args) => instructions::run(&args).map_err(Into::into),
        Chore::Kernels(args) => kernels::run(&args).map_err(Into::into),
        Chore::Miri(args) => miri::run(&args).map_err(Into::into),
        Chore::Preload(args) => preload::run(&args).map_err(Into::into),
        Chore::Provenance(args) => provenance::run(&args).map_err(Into::into),
        Chore::Python(args) => python::run(&args).map_err(Into::into),
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
