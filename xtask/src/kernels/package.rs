//! A kernel and a shell of Debian: its own client fetches a package, and nothing is installed.

use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on Debian's newest kernel for clouds: small, with what QEMU's machine needs built in.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Returns the image of the kernel of a version, `6.1` for example; fetches it the first time. An error says why there
/// is none.
pub(super) fn kernel(version: &str, folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.join(format!("linux-{version}"));
    if let Some(image) = image(&folder, version) {
        return Ok(image);
    }
    let package = package(version)?;
    fetch(&package, &folder)?;
    image(&folder, version).ok_or_else(|| format!("{package} has no image of a kernel"))
}

/// Returns the shell of the machine; fetches it the first time. An error says why there is none.
pub(super) fn busybox(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("busybox/bin/busybox");
    if !program.exists() {
        fetch("busybox-static", &folder.join("busybox"))?;
    }
    Ok(program)
}

/// Unpacks a package in a folder.
fn fetch(package: &str, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // As root, the client would drop its rights, and then can't write to this folder.
    let words = ["-q", "-o", "APT::Sandbox::User=root", "download", package];
    output(Command::new("apt-get").args(words).current_dir(folder))?;
    let file = entries(folder).find(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let file = file.ok_or("apt-get download left no package")?;
    output(Command::new("dpkg").arg("-x").args([&*file, folder])).map(drop)
}

/// Returns the name of the package with the kernel of a version.
fn package(version: &str) -> Result<String, String> {
    let answer = output(Command::new("apt-cache").args(["depends", NEWEST]))?;
    let package = dependency(&answer).ok_or_else(|| format!("apt-cache knows no {NEWEST}"))?;
    if package.starts_with(&format!("linux-image-{version}.")) {
        Ok(package.to_owned())
    } else {
        Err(format!("the distribution has {package}, and not Linux {version}"))
    }
}

/// Returns the package that the answer of `apt-cache depends` names.
fn dependency(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.trim().strip_prefix("Depends: "))
}

fn image(folder: &Path, version: &str) -> Option<PathBuf> {
    let begin = format!("vmlinuz-{version}.");
    let is_image =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
    entries(&folder.join("boot")).find(is_image)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    folder.read_dir().into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path())
}

/// Returns what a program wrote, if it ended well.
fn output(command: &mut Command) -> Result<String, String> {
    process::output(command).map_err(|error| format!("{error:#}"))
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
