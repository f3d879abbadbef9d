//! `cargo xtask clients`: other people's programs run on it.

use crate::process;
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Test the clients, and measure what they gain
///
/// Each folder of clients/ with a workspace is one: `cargo test` shows that it works, and its program `bench` what it gains. They are
/// built in a target directory of their own.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the benches, and not the tests.
    #[arg(long)]
    bench: bool,
    /// End after so many minutes. The client under way is stopped, and those left out are named.
    #[arg(long)]
    minutes: Option<u64>,
    /// Only these clients: names of folders.
    clients: Vec<String>,
}

const ROOT: &str = "clients";
/// The clients whose builds take minutes, cheapest first. They go last, so that a limit on time leaves out as few as it can.
const COSTLY: [&str; 6] = ["range-allocators", "coroutines", "polars", "ostd", "wasmtime", "wasmer"];
/// The status of timeout(1) when it stopped its command.
const TIMED_OUT: i32 = 124;

pub(crate) fn run(args: &Args) -> Result<()> {
    let clients = chosen(all(Path::new(ROOT))?, &args.clients)?;
    let end = args.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut failed = None;
    for client in clients {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.as_secs() == 0) {
            vmalloc_harness::not_run(format!("client {client}"), "the time is over");
            continue;
        }
        println!("== {client}");
        let status = cargo(&client, args.bench, left)?;
        if left.is_some() && status.code() == Some(TIMED_OUT) {
            vmalloc_harness::not_run(format!("client {client}"), "the time was over before its end");
        } else if !status.success() {
            // The others are worth knowing as well.
            eprintln!("{client}: FAILED");
            failed.get_or_insert(anyhow!("{client}: ended with {status}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Returns the folders that are workspaces: the cheap ones first, and else by their names.
fn all(root: &Path) -> Result<Vec<String>> {
    let unread = || format!("can't read {}", root.display());
    let mut names = Vec::new();
    for entry in root.read_dir().with_context(unread)? {
        let entry = entry.with_context(unread)?;
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
        if manifest.is_ok_and(|text| text.contains("[workspace]")) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    sort(&mut names);
    Ok(names)
}

fn sort(names: &mut [String]) {
    names.sort_by_cached_key(|name| (COSTLY.iter().position(|costly| costly == name), name.clone()));
}

/// Returns those of `all` that were asked for, or all.
fn chosen(all: Vec<String>, asked: &[String]) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Ok(all);
    }
    match asked.iter().find(|name| !all.contains(name)) {
        Some(unknown) => bail!("there is no client {unknown:?}"),
        None => Ok(asked.to_vec()),
    }
}

/// Runs the tests or the bench of a client, for as long as is left.
fn cargo(client: &str, bench: bool, left: Option<Duration>) -> Result<ExitStatus> {
    let mut cargo = match left {
        // timeout(1) stops compilers and tests as well.
        Some(left) => {
            let mut timeout = Command::new("timeout");
            timeout.arg(left.as_secs().to_string()).arg("cargo");
            timeout
        }
        None => Command::new("cargo"),
    };
    cargo.current_dir(Path::new(ROOT).join(client)).env("CARGO_TARGET_DIR", target());
    match bench {
        true => cargo.args(["run", "--quiet", "--release", "--locked", "--bin", "bench"]),
        false => cargo.args(["test", "--release", "--locked"]),
    };
    cargo.status().context("can't run cargo")
}

/// Compares what is committed for the clients with what others have published.
pub(crate) fn provenance(words: &[OsString]) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--locked", "--features", "provenance", "--manifest-path"]);
    cargo.arg("clients/published/Cargo.toml").arg("--").args(words);
    process::finish(cargo.env("CARGO_TARGET_DIR", target()))
}

/// Returns the directory that all clients share, from wherever one is built.
pub(crate) fn target() -> PathBuf {
    let root = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    std::path::absolute(&root).unwrap_or(root).join("clients")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_whose_builds_take_minutes_go_last() {
        let mut names =
            ["wasmer", "zoo", "polars", "range-allocators", "coroutines", "buffer-pool"].map(str::to_owned);
        sort(&mut names);
        assert_eq!(names, ["buffer-pool", "zoo", "range-allocators", "coroutines", "polars", "wasmer"]);
    }

    #[test]
    fn a_client_that_is_not_there_is_refused() {
        let all = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!(chosen(all(), &[]).unwrap(), all());
        assert_eq!(chosen(all(), &["two".to_owned()]).unwrap(), ["two"]);
        let refused = chosen(all(), &["three".to_owned()]).unwrap_err().to_string();
        assert_eq!(refused, "there is no client \"three\"");
    }
}
