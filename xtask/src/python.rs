//! `cargo xtask python`: builds the Python package and runs its tests, in an environment of its own.

use crate::{process, steps};
use anyhow::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build the Python package with maturin and run its tests
///
/// It makes an environment in `target/python-venv`, and installs maturin, numpy and pytest there by
/// pip. Where pip can't have them, the package is on the list of what was not run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interpreter.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Build it and install it there, and run no tests: for programs that use it.
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let venv = root.join("target/python-venv");
    if let Err(reason) = provide(&args.python, &venv) {
        return steps::nothing_ran("Python package", reason);
    }
    // A wheel, as it would be published, and with the locked versions.
    let words = ["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall"];
    let mut pip = Command::new(python_of(&venv));
    pip.args(words).arg(root.join("python")).env("MATURIN_PEP517_ARGS", "--locked");
    // pip calls maturin by its name.
    let others = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([venv.join("bin")].into_iter().chain(env::split_paths(&others)))?;
    process::finish(pip.env("PATH", path).env("CARGO_TARGET_DIR", root.join("target/python")))?;
    if args.build {
        return Ok(());
    }
    let mut tests = Command::new(python_of(&venv));
    process::finish(tests.args(["-m", "pytest", "-q"]).arg(root.join("python/tests")))
}

fn python_of(venv: &Path) -> PathBuf {
    venv.join("bin/python")
}

/// Makes the environment, and installs what it lacks.
fn provide(python: &str, venv: &Path) -> Result<(), &'static str> {
    let is_done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if !python_of(venv).exists() && !is_done(Command::new(python).args(["-m", "venv"]).arg(venv)) {
        return Err("python3 with its module venv is not installed");
    }
    let has_all = ["-c", "import maturin, numpy, pytest"];
    let install = ["-m", "pip", "install", "--quiet", "maturin>=1.9,<2", "numpy", "pytest"];
    let has_all =
        Command::new(python_of(venv)).args(has_all).output().is_ok_and(|output| output.status.success());
    if has_all || is_done(Command::new(python_of(venv)).args(install)) {
        Ok(())
    } else {
        Err("pip could not install maturin, numpy and pytest")
    }
}
