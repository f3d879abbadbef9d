//! A kernel and a shell of Debian: its own client fetches a package, and nothing is installed.

use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the distribution's newest kernel has, as far as tests promise.
const NEWEST: &str = "6.1";

/// Returns the package that depends on the newest kernel of a version, or on its headers: for clouds, which is small, and
/// has what QEMU's machine needs built in.
fn newest(kind: &str, version: &str) -> String {
    match version {
        NEWEST => format!("linux-{kind}-cloud-amd64"),
        _ => format!("linux-{kind}-{version}-cloud-amd64"),
    }
}

/// Returns the image of the kernel of a version, `6.1` for example; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn kernel(version: &str, folder: &Path) -> Result<PathBuf> {
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
    let newest = newest("image", version);
    let package = dependency(&newest, "linux-image-")?;
    let is_wanted = package.starts_with(&format!("linux-image-{version}."));
    ensure!(is_wanted, "the distribution has {package}, and not Linux {version}");
    fetch(&package, &folder)?;
    image().with_context(|| format!("{package} has no image of a kernel"))
}

/// Returns the folder in which modules for a release are built, `6.1.0-56-cloud-amd64` for example; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn headers(release: &str, folder: &Path) -> Result<PathBuf> {
    let headers = folder.join(format!("usr/src/linux-headers-{release}"));
    let makefile = headers.join("Makefile");
    if !makefile.exists() {
        let package = format!("linux-headers-{release}");
        let packages =
            [dependency(&package, "linux-kbuild-")?, dependency(&package, "linux-headers-")?, package];
        packages.iter().try_for_each(|package| fetch(package, folder))?;
    }
    // It includes another one by its place in a system where it is installed.
    let text = fs::read_to_string(&makefile)?;
    fs::write(
        makefile,
        text.replace("include /usr/src/", &format!("include {}/usr/src/", folder.display())),
    )?;
    // Of this the types of modules are told apart, which nothing here looks at.
    let _ = fs::remove_file(headers.join("vmlinux"));
    Ok(headers)
}

/// The kernel's own suite of its allocator, below the folder to which its sources were unpacked.
pub(crate) const SUITE: &str = "test_vmalloc.c";

/// Returns the suite of a version; fetches the sources the first time, and keeps nothing else of them.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn suite(version: &str, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(SUITE);
    if !file.exists() {
        fetch(&format!("linux-source-{version}"), folder)?;
        take_suite(version, folder)?;
    }
    Ok(file)
}

/// Takes the suite out of an unpacked package of sources, which goes.
pub(crate) fn take_suite(version: &str, folder: &Path) -> Result<()> {
    let sources = format!("linux-source-{version}");
    let archive = folder.join(format!("usr/src/{sources}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(&archive).arg("--strip-components=2").arg(format!("{sources}/lib/{SUITE}"));
    process::output(tar.current_dir(folder))?;
    Ok(fs::remove_file(archive)?)
}

/// Returns the shell of the machine; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn busybox(folder: &Path) -> Result<PathBuf> {
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
    process::output(Command::new("dpkg").arg("-x").args([&*file, folder]))?;
    Ok(fs::remove_file(file)?)
}

/// Returns the package with this start on which another one depends.
fn dependency(package: &str, start: &str) -> Result<String> {
    let answer = process::output(Command::new("apt-cache").args(["depends", package]))?;
    let found = depends(&answer).find(|name| name.starts_with(start)).map(str::to_owned);
    found.with_context(|| format!("apt-cache knows no {package}"))
}

/// Returns the packages that the answer of `apt-cache depends` names.
pub(crate) fn depends(answer: &str) -> impl Iterator<Item = &str> {
    answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: "))
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
        assert_eq!(depends(answer).collect::<Vec<_>>(), ["linux-image-6.1.0-56-cloud-amd64"]);
        assert_eq!(depends("linux-image-cloud-amd64\n").count(), 0);
        assert_eq!(newest("image", "6.12"), "linux-image-6.12-cloud-amd64");
    }
}
