//! `cargo xtask targets`: what compiles for other machines and systems.

use crate::process::{output, succeeds};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// The core, and what needs no more than a platform: a heap, and no operating system.
const PORTABLE: &str = "--no-default-features --features vmalloc-malloc/allocator-api2-04 -p vmalloc-subspaces \
    -p vmalloc-short -p vmalloc-slots -p vmalloc-percpu -p vmalloc-malloc -p vmalloc-tables";
/// `cargo xtask nightly` compiles and runs the tests of two of these.
const LINUX: &str =
    "-p vmalloc-subspaces -p vmalloc-short -p vmalloc-slots -p vmalloc-stacks -p vmalloc-malloc";

/// What the core says where there are no atomics of 64 bits.
const REFUSED: &str = "vmalloc needs atomics of 64 bits";

/// Targets, what is checked for each, and what the core says where it is refused.
const TARGETS: [(&str, &str, Option<&str>); 13] = [
    ("x86_64-unknown-none", PORTABLE, None),
    ("aarch64-unknown-none", PORTABLE, None),
    ("riscv64gc-unknown-none-elf", PORTABLE, None),
    ("x86_64-unknown-linux-musl", LINUX, None),
    ("i686-unknown-linux-gnu", LINUX, None),
    ("aarch64-unknown-linux-gnu", LINUX, None),
    ("aarch64-unknown-linux-musl", LINUX, None),
    ("armv7-unknown-linux-gnueabihf", LINUX, None),
    ("riscv64gc-unknown-linux-gnu", LINUX, None),
    ("x86_64-unknown-freebsd", PORTABLE, None),
    ("aarch64-apple-darwin", PORTABLE, None),
    ("x86_64-pc-windows-gnu", PORTABLE, None),
    ("riscv32imac-unknown-none-elf", PORTABLE, Some(REFUSED)),
];

pub(crate) fn run() -> Result<()> {
    for (target, packages, refused) in TARGETS {
        if !is_there(target)? {
            let reason = "the toolchain has no standard library for it";
            vmalloc_harness::not_run(format!("target {target}"), reason);
            continue;
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["check", "--quiet", "--target-dir", "target/targets", "--target", target]);
        match (output(cargo.args(packages.split(' '))), refused) {
            (Ok(_), None) => println!("{target}: ok"),
            (Err(said), Some(why)) if said.to_string().contains(why) => {
                println!("{target}: refused, with a reason");
            }
            (Err(said), _) => return Err(said),
            (Ok(_), Some(_)) => bail!("{target} is to be refused"),
        }
    }
    Ok(())
}

/// Returns true if the toolchain in use has a `core` for the target, or rustup could add it.
pub(crate) fn is_there(target: &str) -> Result<bool> {
    // Of targets that are there rustup says so, and downloads nothing.
    let _ = succeeds(Command::new("rustup").args(["target", "add", target]));
    let folder = output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(folder.trim()).is_dir())
}
