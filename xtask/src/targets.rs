//! `cargo xtask targets`: the core compiles for machines without an operating system.

use crate::words::Words;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) const HELP: &str = "\
Compile the core for bare x86-64, AArch64 and RISC-V

With the toolchain in use, for those of its targets that are installed, or that rustup can add. For the others nothing is run, unless
--fetch allows it to download Debian's compiler and the source of the standard library (some 150 MB, unpacked below target/, not installed).

  --fetch  Download what is missing, with apt-get.";

/// What was asked for.
pub(crate) struct Args {
    /// Download what is missing, with apt-get.
    fetch: bool,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self { fetch: words.has("--fetch") };
        words.end()?;
        Ok(args)
    }
}

const TARGETS: [&str; 3] = ["x86_64-unknown-none", "aarch64-unknown-none", "riscv64gc-unknown-none-elf"];

/// Debian's compiler, what it is linked with, and the source of `core` and `alloc`.
const PACKAGES: [&str; 5] =
    ["rustc-web", "libstd-rust-web-dev", "libstd-rust-web-1.96", "libllvm22", "rust-web-src"];

/// Where they are unpacked.
const ROOT: &str = "target/bare/root";

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    for target in TARGETS {
        if is_installed(target)? || add(target)? {
            build(target, Command::new("cargo"))?;
        } else if args.fetch {
            fetch()?;
            build(target, with_fetched()?)?;
        } else {
            vmalloc_harness::not_run(
                format!("target {target}"),
                "it is not installed, and --fetch was not given",
            );
        }
    }
    Ok(())
}

/// Whether the toolchain in use has a `core` for the target.
fn is_installed(target: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = rustc.output().context("can't run rustc")?;
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Adds the target by rustup. Returns false where that is not possible.
fn add(target: &str) -> Result<bool> {
    let words = ["target", "add", target];
    let output = Command::new("rustup").args(words).output();
    if output.is_ok_and(|output| output.status.success()) { is_installed(target) } else { Ok(false) }
}

/// Downloads and unpacks, once.
fn fetch() -> Result<()> {
    let root = Path::new(ROOT);
    if root.join("usr/bin/rustc").exists() {
        return Ok(());
    }
    let debs = Path::new("target/bare/debs");
    for path in [root, debs] {
        fs::create_dir_all(path).with_context(|| format!("can't make {}", path.display()))?;
    }
    finish("apt-get download", Command::new("apt-get").current_dir(debs).arg("download").args(PACKAGES))?;
    let entries = fs::read_dir(debs).context("can't read what was fetched")?;
    for deb in entries.filter_map(Result::ok) {
        finish("dpkg -x", Command::new("dpkg").arg("-x").arg(deb.path()).arg(root))?;
    }
    Ok(())
}

/// Cargo as it is, with the compiler that was fetched, and `core` and `alloc` built from source.
fn with_fetched() -> Result<Command> {
    let root = fs::canonicalize(ROOT).context(ROOT)?;
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

fn build(target: &str, mut cargo: Command) -> Result<()> {
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

fn finish(what: &str, command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("can't run {program}"))?;
    ensure!(status.success(), "{what} ended with {status}");
    Ok(())
}
