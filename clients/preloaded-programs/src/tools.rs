//! Programs of the machine, and files for them to work on.

use crate::{kept, root};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns whether a command succeeds, of which nothing is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the folder of the loads.
pub fn loads() -> PathBuf {
    root().join("lab/benches/loads")
}

/// Returns true if a program is installed.
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    name.contains('/') && Path::new(name).exists()
        || std::env::split_paths(&path).any(|dir| dir.join(name).exists())
}

/// Returns a text of `mib` MiB, made the first time: numbers from a fixed seed, as words in lines.
pub(crate) fn text(mib: usize) -> Result<PathBuf> {
    let path = kept()?.join(format!("text-{mib}"));
    if fs::metadata(&path).is_ok_and(|file| file.len() >= (mib << 20) as u64) {
        return Ok(path);
    }
    let failed = || format!("can't write {}", path.display());
    // Never all in memory: the kernel counts the peak of this process as one of those that it starts.
    let mut file = BufWriter::new(File::create(&path).with_context(failed)?);
    let (mut state, mut bytes) = (88_172_645_463_325_252_u64, 0);
    while bytes < mib << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let line = format!("{:x} {} word{}\n", state >> 32, state % 9973, state % 251);
        file.write_all(line.as_bytes()).with_context(failed)?;
        bytes += line.len();
    }
    file.flush().with_context(failed)?;
    Ok(path)
}

/// Returns a Python that has the packages of the loads, in an environment made the first time; `None` where either
/// is not to be had.
pub(crate) fn python_with_packages() -> Result<Option<PathBuf>> {
    let venv = kept()?.join("venv");
    let python = venv.join("bin/python");
    let quiet = |program: &Path, words: &[&str]| succeeds(Command::new(program).args(words));
    let has_all = |python: &Path| quiet(python, &["-c", "import numpy, pandas, scipy, PIL, lxml"]);
    if !python.exists() {
        quiet(Path::new("python3"), &["-m", "venv", &venv.display().to_string()]);
    }
    let install = ["-m", "pip", "install", "-q", "numpy", "pandas", "scipy", "pillow", "lxml"];
    let is_there = has_all(&python) || quiet(&python, &install) && has_all(&python);
    Ok(is_there.then_some(python))
}

/// Returns the program `name`, compiled from C.
///
/// # Errors
/// There is no place for it.
pub fn compiled(source: &Path, name: &str, flags: &[&str]) -> Result<Option<PathBuf>> {
    let to = kept()?.join(name);
    let command = Command::new("cc").args(["-O2", "-w"]).arg(source).args(flags).arg("-o").arg(&to).status();
    Ok(command.is_ok_and(|status| status.success()).then_some(to))
}
