//! Chores of this repository, run as `cargo xtask <chore>`.

mod ci;
mod clients;
mod counts;
mod figures;
mod instructions;
mod kernel;
mod kernels;
mod miri;
mod msrv;
mod nightly;
mod package;
mod packages;
mod policy;
mod preload;
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
mod words;

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
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

const CHORES: [Chore; 18] = [
    chore("ci", ci::HELP, ci::run),
    chore("nightly", nightly::HELP, nightly::run),
    chore("clients", clients::HELP, clients::run),
    chore("figures", figures::HELP, figures::run),
    chore("instructions", instructions::HELP, instructions::run),
    chore("kernels", kernels::HELP, kernels::run),
    chore("miri", miri::HELP, miri::run),
    chore("msrv", msrv::HELP, msrv::run),
    chore("package", package::HELP, package::run),
    chore("policy", policy::HELP, policy::run),
    chore("preload", preload::HELP, preload::run),
    chore("python", python::HELP, python::run),
    chore("qemu", qemu::HELP, qemu::run),
    chore("ratchet", ratchet::HELP, ratchet::run),
    chore("results", results::HELP, results::run),
    chore("sanitize", sanitize::HELP, sanitize::run),
    chore("soak", soak::HELP, soak::run),
    chore("targets", targets::HELP, targets::run),
];

/// A chore that is a program of its own, which tells its options itself.
struct Program {
    name: &'static str,
    help: &'static str,
    package: &'static str,
    /// The word that goes before those of the chore.
    first: Option<&'static str>,
}

const fn of_sources(name: &'static str, help: &'static str) -> Program {
    Program { name, help, package: "xtask-source", first: Some(name) }
}

const PROGRAMS: [Program; 5] = [
    of_sources("api", "Compare the public API with docs/api"),
    of_sources("check", "Hold the rules of language and size"),
    of_sources("header", "Compare the C header with its sources"),
    of_sources("provenance", "Compare what is committed with the packages that clients name"),
    Program {
        name: "mutants",
        help: "Run the tests against small changes of the core, and tell which no test notices",
        package: "vmalloc-mutants",
        first: None,
    },
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
    if let Some(program) = PROGRAMS.iter().find(|program| program.name == name) {
        return program.run(&words);
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
    let others = PROGRAMS.iter().map(|program| (program.name, program.help));
    own.chain(others).for_each(|(name, help)| println!("  {name:14}{help}"));
}

impl Program {
    fn run(&self, words: &[OsString]) -> Result<()> {
        let mut cargo = process::cargo();
        cargo.args(["run", "--quiet", "--package", self.package, "--"]).args(self.first).args(words);
        let status = cargo.status().context("can't run cargo")?;
        if status.success() { Ok(()) } else { bail!("cargo xtask {} ended with {status}", self.name) }
    }
}
