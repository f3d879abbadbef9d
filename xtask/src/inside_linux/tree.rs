//! A tree of Debian 13, for kernels whose headers this system's tools can't use: its own compiler builds modules in it.

use super::Kernel;
use crate::machines::apt::{self, Apt};
use crate::machines::package;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Where apt looks for it.
const SUITES: [&str; 2] = ["trixie", "trixie-backports"];
/// What makes modules, beside the headers and what they depend on.
const TOOLS: [&str; 11] = [
    "base-files",
    "bash",
    "binutils",
    "coreutils",
    "dash",
    "findutils",
    "gcc-14",
    "grep",
    "make",
    "mawk",
    "sed",
];

/// Fetches a kernel of trixie-backports, and the tree for its modules. What was fetched before stays.
///
/// # Errors
/// The reason why there is none.
pub(super) fn fetched(version: &str, folder: &Path) -> Result<Kernel> {
    let folder = folder.join(format!("linux-{version}"));
    let tree = folder.join("tree");
    let release = folder.join("release");
    if !release.exists() {
        let found = fetch(version, &folder, &tree)?;
        // At the end: then all is there.
        fs::write(&release, found)?;
    }
    let release = fs::read_to_string(release)?;
    Ok(Kernel {
        image: tree.join(format!("usr/lib/modules/{release}/vmlinuz")),
        headers: Path::new("/usr/src").join(format!("linux-headers-{release}")),
        suite: tree.join(package::SUITE),
        version: version.to_owned(),
        release,
        tree: Some(tree),
    })
}

/// Fetches all of it. Returns the kernel's release.
fn fetch(version: &str, folder: &Path, tree: &Path) -> Result<String> {
    let apt = Apt::of(&SUITES, None, folder.join("apt"))?;
    let archives = apt.archives().context("no folder of packages")?;
    let backports = |name: &str| format!("{name}/{}", SUITES[1]);
    let headers =
        apt.dependency(&backports("linux-headers-cloud-amd64"), &format!("linux-headers-{version}."));
    let headers = headers.with_context(|| format!("{} has no Linux {version}", SUITES[1]))?;
    let release = headers.trim_start_matches("linux-headers-").to_owned();
    let install = ["-y", "--no-install-recommends", "--download-only", "install", &*headers];
    apt.run("apt-get", &[&install[..], &TOOLS].concat(), &archives)?;
    for package in [format!("linux-binary-{release}"), backports(&format!("linux-source-{version}"))] {
        apt.run("apt-get", &["download", &package], &archives)?;
    }
    process::empty(tree.to_path_buf())?;
    apt::unpack_all(&archives, tree)?;
    // What an installation would choose.
    std::os::unix::fs::symlink("mawk", tree.join("usr/bin/awk"))?;
    package::take_suite(version, tree)?;
    // See `package::headers`.
    let _ = fs::remove_file(tree.join(format!("usr/src/{headers}/vmlinux")));
    ensure!(tree.join(format!("usr/lib/modules/{release}/vmlinuz")).exists(), "{release} has no image");
    Ok(release)
}
