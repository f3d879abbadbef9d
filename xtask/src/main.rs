//! Chores of this repository, run as `cargo xtask <chore>`.

mod ci;
mod nightly;
mod run;
mod step;

use anyhow::{Context, Result, bail};
use std::env;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask ci              what a change can break: in each run of all checks
cargo xtask nightly [STEP]  what takes longer; a word chooses the steps that have it in their names

The other chores:";

fn main() -> ExitCode {
    match chore() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn chore() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(),
        ["nightly", ref names @ ..] => nightly::run(names),
        ["--help" | "help"] | [] => {
            println!("{HELP}");
            source(&["--help".to_owned()])
        }
        _ => source(&words),
    }
}

/// Runs a chore of `xtask/source`.
fn source(words: &[String]) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "xtask-source", "--"]).args(words);
    let status = command.status().context("can't run cargo")?;
    if status.success() { Ok(()) } else { bail!("{} ended with {status}", words.join(" ")) }
}
