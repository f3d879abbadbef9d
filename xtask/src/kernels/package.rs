//! A kernel and a shell of Debian: its own client fetches a package, and nothing is installed.

use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on Debian's newest kernel for clouds: small, with what QEMU's machine needs built in.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Returns the image of the kernel of a version, `6.1` for example; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(super) fn kernel(version: &str, folder: &Path) -> Result<PathBuf> {
    let folder = folder.join(format!("linux-{version}"));
    let begin = format!("vmlinuz-{version}.");
    let image = || {
        let is_image =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
        entries(&folder.join("boot")).find(is_image)
    };
    if let Some(image) = image() {
        return Ok(image);
    }
    let answer = process::output(Command::new("apt-cache").args(["depends", NEWEST]))?;
    let package = dependency(&answer).with_context(|| format!("apt-cache knows no {NEWEST}"))?;
    let is_wanted = package.starts_with(&format!("linux-image-{version}."));
    ensure!(is_wanted, "the distribution has {package}, and not Linux {version}");
    fetch(package, &folder)?;
    image().with_context(|| format!("{package} has no image of a kernel"))
}

/// Returns the shell of the machine; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(super) fn busybox(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("busybox/bin/busybox");
    if !program.exists() {
        fetch("busybox-static", &folder.join("busybox"))?;
    }
    Ok(program)
}

/// Unpacks a package in a folder.
fn fetch(package: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    // As root, the client would drop its rights, and then can't write to this folder.
    let words = ["-q", "-o", "APT::Sandbox::User=root", "download", package];
    process::output(Command::new("apt-get").args(words).current_dir(folder))?;
    let file = entries(folder).find(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let file = file.context("apt-get download left no package")?;
    process::output(Command::new("dpkg").arg("-x").args([&*file, folder])).map(drop)
}

/// Returns the package that the answer of `apt-cache depends` names.
fn dependency(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.trim().strip_prefix("Depends: "))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    folder.read_dir().into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_package_that_the_newest_one_depends_on() {
        let answer = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(dependency(answer), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }
}
