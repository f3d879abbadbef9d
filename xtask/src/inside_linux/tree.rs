//! A tree of Debian 13, for kernels whose headers this system's tools can't use: its own compiler builds modules in it.

use super::Kernel;
use crate::kernels::package;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where apt looks for it. Neither the lists of this system nor what it has installed are touched.
const SUITES: [&str; 2] = ["trixie", "trixie-backports"];
const KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "http://deb.debian.org/debian";
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
    let apt = process::empty(folder.join("apt"))?;
    for folder in ["lists/partial", "cache/archives/partial", "parts"] {
        fs::create_dir_all(apt.join(folder))?;
    }
    fs::write(apt.join("status"), "")?;
    let source = |suite: &str| format!("deb [signed-by={KEY}] {MIRROR} {suite} main\n");
    fs::write(apt.join("sources.list"), SUITES.map(source).concat())?;
    let at = apt.display();
    let config = format!(
        "Dir::Etc::SourceList \"{at}/sources.list\";\nDir::Etc::SourceParts \"{at}/parts\";\nDir::State::lists \"{at}/lists\";\n\
        Dir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache\";\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n"
    );
    fs::write(apt.join("config"), config)?;
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("APT_CONFIG", apt.join("config")).current_dir(apt.join("cache/archives"));
        process::output(&mut command)
    };
    run("apt-get", &["-q", "update"])?;
    let backports = |name: &str| format!("{name}/{}", SUITES[1]);
    let answer = run("apt-cache", &["depends", &backports("linux-headers-cloud-amd64")])?;
    let headers =
        package::depends(&answer).find(|name| name.starts_with(&format!("linux-headers-{version}.")));
    let headers = headers.with_context(|| format!("{} has no Linux {version}", SUITES[1]))?;
    let release = headers.trim_start_matches("linux-headers-").to_owned();
    let install = ["-q", "-y", "--no-install-recommends", "--download-only", "install", headers];
    run("apt-get", &[&install[..], &TOOLS].concat())?;
    run("apt-get", &["-q", "download", &format!("linux-binary-{release}")])?;
    run("apt-get", &["-q", "download", &backports(&format!("linux-source-{version}"))])?;
    process::empty(tree.to_path_buf())?;
    for entry in apt.join("cache/archives").read_dir()? {
        let file = entry?.path();
        if file.extension().is_some_and(|kind| kind == "deb") {
            process::output(Command::new("dpkg").arg("-x").args([&*file, tree]))?;
        }
    }
    // What an installation would choose.
    std::os::unix::fs::symlink("mawk", tree.join("usr/bin/awk"))?;
    package::take_suite(version, tree)?;
    // See `package::headers`.
    let _ = fs::remove_file(tree.join(format!("usr/src/{headers}/vmlinux")));
    ensure!(tree.join(format!("usr/lib/modules/{release}/vmlinuz")).exists(), "{release} has no image");
    Ok(release)
}
