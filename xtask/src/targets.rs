//! `cargo xtask targets`: what compiles for other machines and systems.

use crate::process::{finish, succeeds};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The core, and what needs no more than a platform: a heap, and no operating system.
const PORTABLE: &str = "--no-default-features --features vmalloc-malloc/allocator-api2-04 -p vmalloc-subspaces \
    -p vmalloc-short -p vmalloc-slots -p vmalloc-percpu -p vmalloc-malloc";
/// `cargo xtask nightly` compiles and runs the tests of two of these.
const LINUX: &str =
    "-p vmalloc-subspaces -p vmalloc-short -p vmalloc-slots -p vmalloc-stacks -p vmalloc-malloc";

const TARGETS: [(&str, &str); 12] = [
    ("x86_64-unknown-none", PORTABLE),
    ("aarch64-unknown-none", PORTABLE),
    ("riscv64gc-unknown-none-elf", PORTABLE),
    ("x86_64-unknown-linux-musl", LINUX),
    ("i686-unknown-linux-gnu", LINUX),
    ("aarch64-unknown-linux-gnu", LINUX),
    ("aarch64-unknown-linux-musl", LINUX),
    ("armv7-unknown-linux-gnueabihf", LINUX),
    ("riscv64gc-unknown-linux-gnu", LINUX),
    ("x86_64-unknown-freebsd", PORTABLE),
    ("aarch64-apple-darwin", PORTABLE),
    ("x86_64-pc-windows-gnu", PORTABLE),
];

/// It has no atomics of 64 bits, and what the core says there.
const REFUSED: (&str, &str) = ("riscv32imac-unknown-none-elf", "vmalloc needs atomics of 64 bits");

pub(crate) fn run() -> Result<()> {
    for (target, packages) in TARGETS {
        match is_there(target)? {
            true => check(target, packages)?,
            false => not_run(target),
        }
    }
    let (target, why) = REFUSED;
    match is_there(target)? {
        true => refused(target, why),
        false => {
            not_run(target);
            Ok(())
        }
    }
}

fn not_run(target: &str) {
    vmalloc_harness::not_run(format!("target {target}"), "the toolchain has no standard library for it");
}

/// Returns true if the target is installed, or could be added.
fn is_there(target: &str) -> Result<bool> {
    Ok(is_installed(target)? || add(target)?)
}

/// Returns true if the toolchain in use has a `core` for the target.
fn is_installed(target: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = rustc.output().context("can't run rustc")?;
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Adds the target by rustup. Returns false where that is not possible.
fn add(target: &str) -> Result<bool> {
    let mut rustup = Command::new("rustup");
    if succeeds(rustup.args(["target", "add", target])) { is_installed(target) } else { Ok(false) }
}

/// Returns what checks the types of packages for a target.
fn checking(target: &str, packages: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["check", "--quiet", "--target-dir", "target/targets", "--target", target])
        .args(packages.split(' '));
    cargo
}

fn check(target: &str, packages: &str) -> Result<()> {
    finish(&mut checking(target, packages))?;
    println!("{target}: ok");
    Ok(())
}

/// Sees to it that the core does not compile for the target, and says why.
fn refused(target: &str, why: &str) -> Result<()> {
    let output = checking(target, PORTABLE).output().context("can't run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains(why),
        "{target} is to be refused, with a reason: {said}"
    );
    println!("{target}: refused, with a reason");
    Ok(())
}
