//! `cargo xtask package`: the packages that would be published, built and tested without the
//! repository around them.

use crate::packages;
use crate::process::{empty, finish, output, succeeds};
use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Pack the crates that are published, and build and test them from their packages
///
/// Everything lies below target/package. In `crates/` are the packages, unpacked, in a workspace of nothing else: built as a program
/// that depends on them has them built. In `workspace/` is the workspace, in which the packages stand in for their folders, without
/// documents: their tests are run there, for packages have no dependencies on the testing crates.
///
/// cargo-semver-checks, where it is installed, compares them with the last version that git has a tag for. Before the first, it tells
/// what changed since the commit before.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build them, and run no tests.
    #[arg(long)]
    build: bool,
}

/// Below it everything lies.
const ROOT: &str = "target/package";
/// What tests need besides the packages: the manifests of the workspace, and what these name.
const WORKSPACE: [&str; 7] = ["Cargo.toml", "Cargo.lock", "crates", "examples", "lab", "testing", "xtask"];
/// What cargo says of a package that lacks a text that registries show, and of other doubts.
const DOUBT: &str = "warning:";

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut published = packages::all()?;
    published.retain(packages::is_published);
    let root = std::path::absolute(ROOT)?;
    pack(&published, &root)?;
    build(&published, &root)?;
    compare(&published)?;
    if args.build { Ok(()) } else { test(&published, &root) }
}

fn names(published: &[Package]) -> impl Iterator<Item = &str> {
    published.iter().flat_map(|package| ["-p", &package.name])
}

/// Packs the crates, each against the packages of the others, and unpacks them.
fn pack(published: &[Package], root: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--allow-dirty", "--no-verify", "--target-dir"]).arg(root).args(names(published));
    let output = cargo.output().context("can't run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !said.contains(DOUBT), "cargo package: {said}");
    let crates = empty(root.join("crates"))?;
    for package in published {
        let file = root.join("package").join(format!("{}-{}.crate", package.name, package.version));
        unpack(&file, &package.name, &crates)?;
        for wanted in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            let folder = crates.join(package.name.as_str());
            ensure!(folder.join(wanted).is_file(), "the package of {} has no {wanted}", package.name);
        }
    }
    Ok(())
}

/// Unpacks a package into a folder of its name. Its files are as old as the unpacking, not as the
/// package says: cargo would take them for those of an earlier run.
fn unpack(file: &Path, name: &str, into: &Path) -> Result<()> {
    finish(Command::new("tar").arg("-xzmf").arg(file).arg("-C").arg(into))?;
    let from = into.join(file.file_stem().unwrap_or_default());
    fs::rename(from, into.join(name)).with_context(|| format!("{} has no folder of its name", file.display()))
}

/// Builds each package by itself where nothing else is: with its default features, and with all. A
/// warning is an error: beside others a package has the features that they ask for, and code that
/// only those use.
fn build(published: &[Package], root: &Path) -> Result<()> {
    let crates = root.join("crates");
    let patches = published.iter().map(|package| format!("{0} = {{ path = \"{0}\" }}\n", package.name));
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n{}",
        patches.collect::<String>()
    );
    fs::write(crates.join("Cargo.toml"), manifest).context("can't write the manifest")?;
    // So that the versions of dependencies are those that are tested.
    fs::copy("Cargo.lock", crates.join("Cargo.lock")).context("can't copy Cargo.lock")?;
    for (package, features) in
        published.iter().flat_map(|package| [(package, None), (package, Some("--all-features"))])
    {
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(&crates)
            .args(["build", "--quiet", "--lib", "--bins", "-p", &package.name])
            .args(features);
        finish(cargo.env("RUSTFLAGS", "-D warnings").arg("--target-dir").arg(root.join("build")))?;
    }
    println!("{} packages build", published.len());
    Ok(())
}

/// Compares the API with that of the last version that has a tag. As long as there is none, what
/// changed since the commit before is told, and breaks no promise.
fn compare(published: &[Package]) -> Result<()> {
    let mut tool = Command::new("cargo");
    if !succeeds(tool.args(["semver-checks", "--version"])) {
        vmalloc_harness::not_run(
            "comparison of the API with the last version",
            "cargo-semver-checks is not installed",
        );
        return Ok(());
    }
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"];
    let tag = output(Command::new("git").args(words)).ok();
    let baseline = tag.as_deref().map_or("HEAD^", str::trim);
    let mut compare = Command::new("cargo");
    compare.args(["semver-checks", "--baseline-rev", baseline]).args(names(published));
    let compared = finish(&mut compare);
    if tag.is_none() && compared.is_err() {
        println!("no version has a tag yet, which these changes could break");
        return Ok(());
    }
    compared
}

/// Runs the tests that the packages hold.
fn test(published: &[Package], root: &Path) -> Result<()> {
    let workspace = empty(root.join("workspace"))?;
    for file in output(Command::new("git").arg("ls-files").args(WORKSPACE))?.lines() {
        let to = workspace.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&workspace))?;
        fs::copy(file, &to).with_context(|| format!("can't copy {file}"))?;
    }
    let crates = workspace.join("crates");
    for package in published {
        let folder = crates.join(package.name.as_str());
        fs::remove_dir_all(&folder)?;
        let file = root.join("package").join(format!("{}-{}.crate", package.name, package.version));
        unpack(&file, &package.name, &crates)?;
        // The manifest as it was written, with the testing crates among its dependencies.
        fs::rename(folder.join("Cargo.toml.orig"), folder.join("Cargo.toml"))?;
    }
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&workspace).args(["test", "--quiet"]).args(names(published));
    finish(cargo.arg("--target-dir").arg(root.join("tests")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn files_of_a_package_are_new_to_cargo() {
        let folder =
            empty(std::env::temp_dir().join(format!("xtask-package-{}", std::process::id()))).unwrap();
        let source = folder.join("p-0.1.0");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("lib.rs"), "").unwrap();
        let file = folder.join("p-0.1.0.crate");
        let mut pack = Command::new("tar");
        pack.arg("-C").arg(&folder).arg("--mtime=2006-07-24").arg("-czf").arg(&file).arg("p-0.1.0");
        finish(&mut pack).unwrap();
        fs::remove_dir_all(&source).unwrap();
        unpack(&file, "p", &folder).unwrap();
        let modified = fs::metadata(folder.join("p/lib.rs")).unwrap().modified().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(SystemTime::now().duration_since(modified).unwrap_or_default() < Duration::from_secs(3600));
    }
}
