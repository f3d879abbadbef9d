//! Chores of this repository, run as `cargo xtask <chore>`.

mod bounds;
mod ci;
mod clients;
mod cores;
mod figures;
mod inside_linux;
mod instructions;
mod kernel;
mod machines;
mod miri;
mod msrv;
mod nightly;
mod package;
mod packages;
mod policy;
mod process;
mod python;
mod qemu;
mod ratchet;
mod results;
mod sanitize;
mod soak;
mod step;
mod steps;
mod targets;
mod toolchain;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Chores of this repository
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Run all that a change can break
    ///
    /// Two steps run at a time. Their output goes to target/ci, with a report. Fails as well if something was not run that
    /// .ci/may-be-missing does not list. `.ci/run` installs the tools that it takes, and runs this.
    Ci,
    Nightly(nightly::Args),
    Clients(clients::Args),
    Cores(cores::Args),
    Figures(figures::Args),
    InsideLinux(inside_linux::Args),
    Instructions(instructions::Args),
    Machines(machines::Args),
    Miri(miri::Args),
    /// Check that the crates and the Python package build with the least Rust that they name, with all their features
    ///
    /// It installs that toolchain by rustup where it is missing. Where it can't, this is on the list of what was not run. Tests and
    /// the tools of the repository may need a newer Rust.
    Msrv,
    Package(package::Args),
    Policy(policy::Args),
    Preload(clients::Preload),
    Python(python::Args),
    Qemu(qemu::Args),
    /// Compare every allowance and bar with those of the parent commit, and fail if one is higher
    ///
    /// The files of the working tree are compared with those of the last commit, of its parents, and of the commit where it
    /// left the remote's default branch. A new number is no rise, except an allowance for a crate that there was. A row of a
    /// bench that has no number any more fails where it is counted; a constant may not go unless its file does.
    ///
    /// Where there is no parent commit (a tarball, a shallow clone) that is not run, and says so.
    Ratchet,
    Results(results::Args),
    Sanitize(sanitize::Args),
    Soak(soak::Args),
    /// Check the types of each crate for each machine and system that it makes sense on
    ///
    /// With the toolchain in use, for those of its targets that are installed, or that rustup can add. The others are told.
    Targets,
    /// Hold the rules of size
    #[command(disable_help_flag = true)]
    Check(Words),
    /// Compare the C header with its sources
    #[command(disable_help_flag = true)]
    Header(Words),
    /// Compare what is committed with the packages that clients name
    #[command(disable_help_flag = true)]
    Provenance(Words),
    /// Run the tests against small changes of the core, and tell which no test notices
    #[command(disable_help_flag = true)]
    Mutants(Words),
}

/// What a program of its own is given, which tells its options itself.
#[derive(clap::Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(&Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(chore: &Chore) -> Result<()> {
    match chore {
        Chore::Ci => ci::run(),
        Chore::Nightly(args) => nightly::run(args),
        Chore::Clients(args) => clients::run(args),
        Chore::Cores(args) => cores::run(args),
        Chore::Figures(args) => figures::run(args),
        Chore::InsideLinux(args) => inside_linux::run(args),
        Chore::Instructions(args) => instructions::run(args),
        Chore::Machines(args) => machines::run(args),
        Chore::Miri(args) => miri::run(args),
        Chore::Msrv => msrv::run(),
        Chore::Package(args) => package::run(args),
        Chore::Policy(args) => policy::run(args),
        Chore::Preload(args) => clients::preload(args),
        Chore::Python(args) => python::run(args),
        Chore::Qemu(args) => qemu::run(args),
        Chore::Ratchet => ratchet::run(),
        Chore::Results(args) => results::run(args),
        Chore::Sanitize(args) => sanitize::run(args),
        Chore::Soak(args) => soak::run(args),
        Chore::Targets => targets::run(),
        Chore::Check(words) => program("xtask-source", Some("check"), words),
        Chore::Header(words) => program("xtask-source", Some("header"), words),
        Chore::Provenance(words) => clients::provenance(&words.words),
        Chore::Mutants(words) => program("vmalloc-mutants", None, words),
    }
}

/// Runs a chore that is a program of its own, with a word before those that were given.
fn program(package: &str, first: Option<&str>, Words { words }: &Words) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--package", package, "--"]).args(first).args(words);
    let status = cargo.status().context("can't run cargo")?;
    ensure!(status.success(), "{package} ended with {status}");
    Ok(())
}
