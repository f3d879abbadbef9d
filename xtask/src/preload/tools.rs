//! Programs of the machine, and files for them to work on.

use super::scratch;
use crate::process;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the loads.
pub(super) fn loads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/benches/loads")
}

/// Returns true if a program is installed.
pub(super) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    name.contains('/') && Path::new(name).exists()
        || std::env::split_paths(&path).any(|dir| dir.join(name).exists())
}

/// Returns a text of `mib` MiB, made the first time: numbers from a fixed seed, as words in lines.
pub(super) fn text(mib: usize) -> Result<PathBuf> {
    let path = scratch()?.join(format!("text-{mib}"));
    if fs::metadata(&path).is_ok_and(|file| file.len() >= (mib << 20) as u64) {
        return Ok(path);
    }
    let mut state = 88_172_645_463_325_252_u64;
    let mut text = String::with_capacity((mib << 20) + 100);
    while text.len() < mib << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{:x} {} word{}\n", state >> 32, state % 9973, state % 251));
    }
    fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

/// Returns a Python that has numpy, in an environment made the first time; `None` where neither is
/// to be had.
pub(super) fn python_with_numpy() -> Result<Option<PathBuf>> {
    let venv = scratch()?.join("venv");
    let python = venv.join("bin/python");
    let quiet = |program: &Path, words: &[&str]| process::succeeds(Command::new(program).args(words));
    let has_numpy = |python: &Path| quiet(python, &["-c", "import numpy"]);
    if !python.exists() {
        quiet(Path::new("python3"), &["-m", "venv", &venv.display().to_string()]);
    }
    if has_numpy(&python) || quiet(&python, &["-m", "pip", "install", "-q", "numpy"]) && has_numpy(&python) {
        return Ok(Some(python));
    }
    Ok(None)
}

/// Returns the program `name` of this folder, compiled from C.
pub(super) fn compiled(source: &Path, name: &str, flags: &[&str]) -> Result<Option<PathBuf>> {
    let to = scratch()?.join(name);
    let command = Command::new("cc").args(["-O2", "-w"]).arg(source).args(flags).arg("-o").arg(&to).status();
    Ok(command.is_ok_and(|status| status.success()).then_some(to))
}
