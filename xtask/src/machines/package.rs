//! A kernel and a shell of Debian: its own client fetches a package, and nothing is installed.

use super::apt::{Apt, entries};
use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the distribution's newest kernel has, as far as tests promise.
const NEWEST: &str = "6.1";

/// Returns the package that depends on the newest kernel of a version: for clouds, which is small, and has what QEMU's
/// machine needs built in.
fn newest(version: &str) -> String {
    match version {
        NEWEST => "linux-image-cloud-amd64".to_owned(),
        _ => format!("linux-image-{version}-cloud-amd64"),
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
    let apt = Apt::own();
    let package = apt.dependency(&newest(version), "linux-image-")?;
    let is_wanted = package.starts_with(&format!("linux-image-{version}."));
    ensure!(is_wanted, "the distribution has {package}, and not Linux {version}");
    apt.fetch(&package, &folder)?;
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
        let (apt, package) = (Apt::own(), format!("linux-headers-{release}"));
        let packages = [
            apt.dependency(&package, "linux-kbuild-")?,
            apt.dependency(&package, "linux-headers-")?,
            package,
        ];
        packages.iter().try_for_each(|package| apt.fetch(package, folder))?;
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
        Apt::own().fetch(&format!("linux-source-{version}"), folder)?;
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

/// Returns a shell of this system, for machines of its architecture; fetches it the first time.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn busybox(folder: &Path) -> Result<PathBuf> {
    let folder = folder.join("busybox");
    if shell(&folder).is_none() {
        Apt::own().fetch(BUSYBOX, &folder)?;
    }
    shell(&folder).context(NO_SHELL)
}

const BUSYBOX: &str = "busybox-static";
const NO_SHELL: &str = "the package has no shell";

/// Returns the shell below a folder to which its package was unpacked.
fn shell(folder: &Path) -> Option<PathBuf> {
    ["bin/busybox", "usr/bin/busybox"].map(|file| folder.join(file)).into_iter().find(|file| file.exists())
}

/// What a machine of another architecture boots.
#[derive(Clone, Copy)]
pub(super) struct Foreign {
    /// Debian's name of the architecture.
    pub(super) architecture: &'static str,
    /// The releases, of which the last has the kernel.
    pub(super) suites: &'static [&'static str],
    /// The package that depends on the newest kernel.
    pub(super) kernel: &'static str,
}

/// Returns the kernel and the shell of another architecture; fetches them the first time.
///
/// # Errors
/// The reason why there are none.
pub(super) fn foreign(foreign: &Foreign, folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let found = || Some((kernel_image(folder)?, shell(folder)?));
    if let Some(found) = found() {
        return Ok(found);
    }
    let apt = Apt::of(foreign.suites, Some(foreign.architecture), folder.join("apt"))?;
    let newest = format!("{}/{}", foreign.kernel, foreign.suites.last().context("no release")?);
    let image = apt.dependency(&newest, "linux-image-")?;
    // Newer kernels come in a package of their own, on which that of their modules depends.
    let binary = apt.dependency(&image, "linux-binary-").unwrap_or(image);
    [&*binary, BUSYBOX].iter().try_for_each(|package| apt.fetch(package, folder))?;
    found().with_context(|| format!("{binary} has no image of a kernel, or {NO_SHELL}"))
}

/// Returns the image of a kernel below a folder to which its package was unpacked.
fn kernel_image(folder: &Path) -> Option<PathBuf> {
    let [boot, modules] = ["boot", "usr/lib/modules"].map(|below| folder.join(below));
    let of_modules = entries(&modules).map(|release| release.join("vmlinuz"));
    let is_image = |path: &PathBuf| {
        path.exists() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinu"))
    };
    entries(&boot).chain(of_modules).find(is_image)
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn kernels_beside_the_newest_have_their_version_in_the_name() {
        assert_eq!(newest("6.1"), "linux-image-cloud-amd64");
        assert_eq!(newest("6.12"), "linux-image-6.12-cloud-amd64");
    }
}
