//! `cargo xtask clients`: other people's programs run on it.

use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Test the clients, and measure what they gain
///
/// Each folder of clients/ with a workspace is one: `cargo test` shows that it works, and its program `bench` what it gains. They are
/// built in a target directory of their own.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the benches, and not the tests.
    #[arg(long)]
    bench: bool,
    /// Only these clients: names of folders.
    clients: Vec<String>,
}

const ROOT: &str = "clients";

pub(crate) fn run(args: &Args) -> Result<()> {
    let chosen = chosen(all()?, &args.clients)?;
    let has_failed = |client: &&String| {
        println!("== {client}");
        // The others are worth knowing as well.
        process::finish(&mut cargo(client, args.bench))
            .inspect_err(|error| eprintln!("{client}: FAILED: {error:#}"))
            .is_err()
    };
    let failed: Vec<_> = chosen.iter().filter(has_failed).map(String::as_str).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Returns those of `all` that were asked for, or all.
fn chosen(all: Vec<String>, asked: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = asked.iter().find(|name| !all.contains(name)) {
        bail!("there is no client {unknown:?}");
    }
    Ok(if asked.is_empty() { all } else { asked.to_vec() })
}

/// Returns the folders that are workspaces, by their names.
fn all() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Path::new(ROOT).read_dir().context(ROOT)? {
        let entry = entry.context(ROOT)?;
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
        if manifest.is_ok_and(|text| text.contains("[workspace]")) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns what runs the tests or the bench of a client.
fn cargo(client: &str, bench: bool) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(Path::new(ROOT).join(client)).env("CARGO_TARGET_DIR", target());
    match bench {
        true => cargo.args(["run", "--quiet", "--release", "--locked", "--bin", "bench"]),
        false => cargo.args(["test", "--release", "--locked"]),
    };
    cargo
}

/// Compares what is committed for the clients with what others have published.
pub(crate) fn provenance(words: &[OsString]) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--locked", "--features", "provenance", "--manifest-path"]);
    cargo.arg("clients/published/Cargo.toml").arg("--").args(words);
    process::finish(cargo.env("CARGO_TARGET_DIR", target()))
}

/// Returns the directory that all clients share, from wherever one is built.
fn target() -> PathBuf {
    let root = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    std::path::absolute(&root).unwrap_or(root).join("clients")
}

/// Run programs of others under a preload library, and compare with runs without it
///
/// `clients/preloaded-programs` does it. With --bench, what loads cost under several allocators is measured instead.
#[derive(clap::Args)]
pub(crate) struct Preload {
    /// Measure instead.
    #[arg(long)]
    bench: bool,
    /// What the program takes: --only NAME, and others that `-- --help` tells.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn preload(args: &Preload) -> Result<()> {
    let program = if args.bench { "bench" } else { "suites" };
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--release", "--locked", "--bin", program, "--"]).args(&args.words);
    process::finish(cargo.current_dir("clients/preloaded-programs").env("CARGO_TARGET_DIR", target()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_client_that_is_not_there_is_refused() {
        let chosen = |asked: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            super::chosen(owned(&["one", "two"]), &owned(asked)).map_err(|refused| refused.to_string())
        };
        assert_eq!(chosen(&[]).unwrap(), ["one", "two"]);
        assert_eq!(chosen(&["two"]).unwrap(), ["two"]);
        assert_eq!(chosen(&["three"]).unwrap_err(), "there is no client \"three\"");
    }
}
