//! The program of the benches that counts, which `instructions` and `policy` drive.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds it; cargo says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--manifest-path", "lab/Cargo.toml"])
        .args(["--package", "vmalloc-bench", "--bin", "counts"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("can't run cargo")?;
    if !output.status.success() {
        bail!("can't build the program that counts");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    };
    messages.lines().filter_map(executable).next_back().context("cargo told of no program that counts")
}
