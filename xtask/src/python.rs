//! `cargo xtask python`: builds the Python package and runs its tests, in an environment of its own.

use crate::process;
use anyhow::{Context, Result};
use std::fs;
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
        vmalloc_harness::not_run("Python package", reason);
        return Ok(());
    }
    install(&root, &venv)?;
    if args.build {
        return Ok(());
    }
    process::finish(
        Command::new(python_of(&venv)).args(["-m", "pytest", "-q"]).arg(root.join("python/tests")),
    )
}

/// Builds a wheel, as it would be published, and installs that.
fn install(root: &Path, venv: &Path) -> Result<()> {
    let target = root.join("target/python");
    let wheels = target.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut maturin = Command::new(venv.join("bin/maturin"));
    maturin
        .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
        .arg(root.join("python/Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .arg("--interpreter")
        .arg(python_of(venv))
        .env("CARGO_TARGET_DIR", &target);
    process::finish(&mut maturin)?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin left no wheel")??.path();
    let words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"];
    process::finish(Command::new(python_of(venv)).args(words).arg(wheel))
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
