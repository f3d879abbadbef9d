//! `cargo xtask msrv`: the crates build with the least Rust that they name.

use crate::process::{finish, succeeds};
use crate::{packages, steps, toolchain};
use anyhow::{Context, Result, ensure};
use std::process::Command;

pub(crate) fn run() -> Result<()> {
    let packages = packages::all()?;
    let version = packages.first().and_then(|package| package.rust_version.clone());
    let different = packages.iter().find(|package| package.rust_version != version);
    ensure!(
        different.is_none(),
        "{} names another Rust than the others",
        different.map_or("", |it| &it.name)
    );
    let version = version.context("the crates name no Rust")?;
    let version = &*format!("{}.{}", version.major, version.minor);
    let install = ["toolchain", "install", version, "--profile", "minimal"];
    if !toolchain::has(version) && !succeeds(Command::new("rustup").args(install)) {
        let reason = format!("there is no toolchain {version}, and rustup could not install it");
        return steps::nothing_ran("the least Rust", reason);
    }
    let names: Vec<_> = packages.iter().flat_map(|package| ["-p", &package.name]).collect();
    check(version, &names)?;
    check(version, &["--manifest-path", "python/Cargo.toml"])?;
    println!("all build with Rust {version}");
    Ok(())
}

fn check(version: &str, packages: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.arg(format!("+{version}")).args([
        "check",
        "--quiet",
        "--locked",
        "--lib",
        "--bins",
        "--all-features",
    ]);
    finish(cargo.args(["--target-dir", "target/msrv"]).args(packages))
}
