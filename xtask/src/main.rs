//! Chores of this repository, run as `cargo xtask <chore>`.

mod c_library;
mod ci;
mod clients;
mod instructions;
mod kernel;
mod kernels;
mod miri;
mod nightly;
mod preload;
mod python;
mod qemu;
mod results;
mod sanitize;
mod soak;
mod step;
mod steps;
mod targets;
mod toolchain;
mod words;

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};
use words::Words;

/// A chore: its name, what it does, and the function that does it.
struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(Words) -> Result<()>,
}

const fn chore(name: &'static str, help: &'static str, run: fn(Words) -> Result<()>) -> Chore {
    Chore { name, help, run }
}

const CHORES: [Chore; 14] = [
    chore("ci", ci::HELP, ci::run),
    chore("nightly", nightly::HELP, nightly::run),
    chore("c-library", c_library::HELP, c_library::run),
    chore("clients", clients::HELP, clients::run),
    chore("instructions", instructions::HELP, instructions::run),
    chore("kernels", kernels::HELP, kernels::run),
    chore("miri", miri::HELP, miri::run),
    chore("preload", preload::HELP, preload::run),
    chore("python", python::HELP, python::run),
    chore("qemu", qemu::HELP, qemu::run),
    chore("results", results::HELP, results::run),
    chore("sanitize", sanitize::HELP, sanitize::run),
    chore("soak", soak::HELP, soak::run),
    chore("targets", targets::HELP, targets::run),
];

/// The chores of programs of their own: the first words of each, and its package.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("api", "xtask-source", "Compare the public API with docs/api"),
    ("check", "xtask-source", "Hold the rules of language and size"),
    ("header", "xtask-source", "Compare the C header with its sources"),
    ("provenance", "xtask-source", "Compare what is committed with the packages that clients name"),
];

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let name = words.next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match run(&name, words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(name: &str, words: Vec<OsString>) -> Result<()> {
    if let Some((_, package, _)) = PROGRAMS.iter().find(|(program, ..)| *program == name) {
        return program(package, name, &words);
    }
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        if name.is_empty() || name == "--help" || name == "help" {
            tell_all();
            return Ok(());
        }
        bail!("there is no chore {name:?}: `cargo xtask help` names them");
    };
    let mut words = Words::new(words);
    if words.has("--help") {
        println!("{}", chore.help);
        return Ok(());
    }
    (chore.run)(words)
}

/// Prints a line for each chore.
fn tell_all() {
    println!("cargo xtask CHORE [--help]\n");
    let own = CHORES.iter().map(|chore| (chore.name, chore.help.lines().next().unwrap_or_default()));
    let others = PROGRAMS.iter().map(|(name, _, help)| (*name, *help));
    own.chain(others).for_each(|(name, help)| println!("  {name:14}{help}"));
}

/// Runs a chore that is a program of its own.
fn program(package: &str, name: &str, words: &[OsString]) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", package, "--", name]).args(words);
    let status = command.status().context("can't run cargo")?;
    if status.success() { Ok(()) } else { bail!("cargo xtask {name} ended with {status}") }
}
