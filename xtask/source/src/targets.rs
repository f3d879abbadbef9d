//! `cargo xtask targets`: the core compiles for machines without an operating system.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use thiserror::Error;

/// Compile the core for bare x86-64, AArch64 and RISC-V
///
/// With the toolchain in use, for those of its targets that are installed, or that rustup can add. For the others nothing is run, unless
/// --fetch allows it to download Debian's compiler and the source of the standard library (some 150 MB, unpacked below target/, not installed).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Download what is missing, with apt-get.
    #[arg(long)]
    fetch: bool,
}

/// Why a target could not be checked, or does not compile.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("can't run {program}: {cause}")]
    Run { program: String, cause: std::io::Error },
    #[error("{what} ended with {status}")]
    Failed { what: String, status: ExitStatus },
    #[error("can't make {path:?}: {cause}")]
    Make { path: PathBuf, cause: std::io::Error },
}

const TARGETS: [&str; 3] = ["x86_64-unknown-none", "aarch64-unknown-none", "riscv64gc-unknown-none-elf"];

/// Debian's compiler, what it is linked with, and the source of `core` and `alloc`.
const PACKAGES: [&str; 5] =
    ["rustc-web", "libstd-rust-web-dev", "libstd-rust-web-1.96", "libllvm22", "rust-web-src"];

/// Where they are unpacked.
const ROOT: &str = "target/bare/root";

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    for target in TARGETS {
        if is_installed(target)? || add(target)? {
            build(target, Command::new("cargo"))?;
        } else if args.fetch {
            fetch()?;
            build(target, with_fetched()?)?;
        } else {
            println!("{target}: NOT RUN: the target is not installed, and --fetch was not given");
        }
    }
    Ok(())
}

/// Whether the toolchain in use has a `core` for the target.
fn is_installed(target: &str) -> Result<bool, Error> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = rustc.output().map_err(|cause| Error::Run { program: "rustc".into(), cause })?;
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Adds the target by rustup. Returns false where that is not possible.
fn add(target: &str) -> Result<bool, Error> {
    let words = ["target", "add", target];
    let output = Command::new("rustup").args(words).output();
    if output.is_ok_and(|output| output.status.success()) { is_installed(target) } else { Ok(false) }
}

/// Downloads and unpacks, once.
fn fetch() -> Result<(), Error> {
    let root = Path::new(ROOT);
    if root.join("usr/bin/rustc").exists() {
        return Ok(());
    }
    let debs = Path::new("target/bare/debs");
    for path in [root, debs] {
        fs::create_dir_all(path).map_err(|cause| Error::Make { path: path.into(), cause })?;
    }
    finish("apt-get download", Command::new("apt-get").current_dir(debs).arg("download").args(PACKAGES))?;
    let entries = fs::read_dir(debs).map_err(|cause| Error::Make { path: debs.into(), cause })?;
    for deb in entries.filter_map(Result::ok) {
        finish("dpkg -x", Command::new("dpkg").arg("-x").arg(deb.path()).arg(root))?;
    }
    Ok(())
}

/// Cargo as it is, with the compiler that was fetched, and `core` and `alloc` built from source.
fn with_fetched() -> Result<Command, Error> {
    let root = fs::canonicalize(ROOT).map_err(|cause| Error::Make { path: ROOT.into(), cause })?;
    let mut libraries = OsString::from(root.join("usr/lib/x86_64-linux-gnu"));
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH") {
        libraries.push(":");
        libraries.push(more);
    }
    let mut cargo = Command::new("cargo");
    cargo
        .env("RUSTC", root.join("usr/bin/rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("LD_LIBRARY_PATH", libraries);
    cargo.arg("-Zbuild-std=core,alloc");
    Ok(cargo)
}

fn build(target: &str, mut cargo: Command) -> Result<(), Error> {
    cargo.args([
        "build",
        "--quiet",
        "-p",
        "vmalloc-subspaces",
        "--target",
        target,
        "--target-dir",
        "target/bare",
    ]);
    finish(&format!("building the core for {target}"), &mut cargo)?;
    println!("{target}: ok");
    Ok(())
}

fn finish(what: &str, command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|cause| Error::Run { program, cause })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { what: what.to_owned(), status }) }
}
