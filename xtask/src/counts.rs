//! The program of the benches that counts, which `instructions` and `policy` drive.

use crate::process;
use anyhow::Result;
use std::path::PathBuf;

/// Builds it; cargo says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let counts = ["--manifest-path", "lab/Cargo.toml", "--package", "vmalloc-bench", "--bin", "counts"];
    process::built(process::cargo().args(["build", "--release"]).args(counts))
}
