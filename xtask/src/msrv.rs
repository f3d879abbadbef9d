//! `cargo xtask msrv`: the crates build with the least Rust that they name.

use crate::packages;
use crate::process::{finish, succeeds};
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub(crate) fn run() -> Result<()> {
    let packages = packages::all()?;
    let version = packages.first().context("there are no crates")?.rust_version.as_str();
    for package in &packages {
        ensure!(
            package.rust_version == version,
            "{} does not name Rust {version} as the others do",
            package.name
        );
    }
    if !has(version) && !install(version) {
        let reason = format!("there is no toolchain {version}, and rustup could not install it");
        vmalloc_harness::not_run("the least Rust", reason);
        return Ok(());
    }
    let names: Vec<_> = packages.iter().flat_map(|package| ["-p", &package.name]).collect();
    check(version, &names)?;
    check(version, &["--manifest-path", "python/Cargo.toml"])?;
    println!("all build with Rust {version}");
    Ok(())
}

fn check(version: &str, packages: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.arg(format!("+{version}")).args(["check", "--quiet", "--locked", "--lib", "--all-features"]);
    finish(cargo.args(["--target-dir", "target/msrv"]).args(packages))
}

fn has(version: &str) -> bool {
    succeeds(Command::new("cargo").arg(format!("+{version}")).arg("--version"))
}

fn install(version: &str) -> bool {
    succeeds(Command::new("rustup").args(["toolchain", "install", version, "--profile", "minimal"]))
}
