//! Programs that chores run.

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns cargo: the one that runs this chore, if one does.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the folder for what is built, in which a folder of this name is made.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let target = PathBuf::from(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let folder = target.join(name);
    let made = fs::create_dir_all(&folder).and_then(|()| std::path::absolute(&folder));
    made.with_context(|| format!("can't make {}", folder.display()))
}

/// Returns a folder, emptied.
pub(crate) fn empty(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("can't remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder)
}

/// Runs a command, which must succeed.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Runs a command, which must succeed. Returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    // The reason may be in either.
    ensure!(output.status.success(), "{command:?} ended with {}\n{printed}{told}", output.status);
    Ok(printed)
}

/// Returns whether a command succeeds, of which nothing is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Has cargo build something. Returns what it has made.
pub(crate) fn artifacts(cargo: &mut Command) -> Result<Vec<Artifact>> {
    cargo.args(["--quiet", "--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let messages = output(cargo)?;
    let artifact = |message| match message {
        Ok(Message::CompilerArtifact(artifact)) => Some(artifact),
        _ => None,
    };
    Ok(Message::parse_stream(messages.as_bytes()).filter_map(artifact).collect())
}

/// Has cargo build a program. Returns its file.
pub(crate) fn built(cargo: &mut Command) -> Result<PathBuf> {
    let mut programs = artifacts(cargo)?.into_iter().filter_map(|artifact| artifact.executable);
    Ok(programs.next_back().context("cargo told of no program")?.into())
}

/// Builds the program of the benches that counts, which `instructions` and `policy` drive. Returns its file.
pub(crate) fn counts() -> Result<PathBuf> {
    let counts = ["--manifest-path", "lab/Cargo.toml", "--package", "vmalloc-bench", "--bin", "counts"];
    built(cargo().args(["build", "--release"]).args(counts))
}
