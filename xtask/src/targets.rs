//! `cargo xtask targets`: what compiles for other machines and systems.

use crate::process::{finish, succeeds};
use crate::words::Words;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) const HELP: &str = "\
Check the types of each crate for each machine and system that it makes sense on

With the toolchain in use, for those of its targets that are installed, or that rustup can add. For the others nothing is run, unless
--fetch allows it to download Debian's compiler and the source of the standard library (some 150 MB, unpacked below target/, not installed):
with those, the targets without an operating system are checked.

  --fetch  Download what is missing, with apt-get.";

/// What was asked for: see `HELP`.
pub(crate) struct Args {
    fetch: bool,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self { fetch: words.has("--fetch") };
        words.end()?;
        Ok(args)
    }
}

/// The core, and what needs no more than a platform: a heap, and no operating system.
const PORTABLE: &str = "--no-default-features --features vmalloc-malloc/allocator-api2-04 -p vmalloc-subspaces \
    -p vmalloc-short -p vmalloc-slots -p vmalloc-percpu -p vmalloc-malloc";
/// `cargo xtask nightly` compiles and runs the tests of two of these.
const LINUX: &str =
    "-p vmalloc-subspaces -p vmalloc-short -p vmalloc-slots -p vmalloc-stacks -p vmalloc-malloc";
const BARE: [&str; 3] = ["x86_64-unknown-none", "aarch64-unknown-none", "riscv64gc-unknown-none-elf"];

const HOSTED: [(&str, &str); 9] = [
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

/// Debian's compiler, what it is linked with, and the source of `core` and `alloc`.
const PACKAGES: [&str; 5] =
    ["rustc-web", "libstd-rust-web-dev", "libstd-rust-web-1.96", "libllvm22", "rust-web-src"];

/// Where they are unpacked.
const ROOT: &str = "target/bare/root";

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    for target in BARE {
        if is_there(target)? {
            check(target, PORTABLE, Command::new("cargo"))?;
        } else if args.fetch {
            fetch()?;
            check(target, PORTABLE, with_fetched()?)?;
        } else {
            not_run(target);
        }
    }
    for (target, checked) in HOSTED {
        match is_there(target)? {
            true => check(target, checked, Command::new("cargo"))?,
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
    finish(Command::new("apt-get").current_dir(debs).arg("download").args(PACKAGES))?;
    let entries = fs::read_dir(debs).context("can't read what was fetched")?;
    for deb in entries.filter_map(Result::ok) {
        finish(Command::new("dpkg").arg("-x").arg(deb.path()).arg(root))?;
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

/// Adds the words that check the types of packages for a target.
fn checking<'a>(cargo: &'a mut Command, target: &str, packages: &str) -> &'a mut Command {
    cargo
        .args(["check", "--quiet", "--target-dir", "target/targets", "--target", target])
        .args(packages.split(' '))
}

fn check(target: &str, packages: &str, mut cargo: Command) -> Result<()> {
    finish(checking(&mut cargo, target, packages))?;
    println!("{target}: ok");
    Ok(())
}

/// Sees to it that the core does not compile for the target, and says why.
fn refused(target: &str, why: &str) -> Result<()> {
    let output =
        checking(&mut Command::new("cargo"), target, PORTABLE).output().context("can't run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains(why),
        "{target} is to be refused, with a reason: {said}"
    );
    println!("{target}: refused, with a reason");
    Ok(())
}
