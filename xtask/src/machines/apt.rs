//! Where packages of Debian come from: this system's own releases, or others for any architecture.

use crate::process;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "http://deb.debian.org/debian";

/// Releases of Debian, as apt's programs see them.
pub(crate) struct Apt {
    /// The folder of lists and packages that are not this system's.
    folder: Option<PathBuf>,
}

impl Apt {
    /// Returns the releases of this system.
    pub(crate) fn own() -> Self {
        Self { folder: None }
    }

    /// Fetches the lists of some releases, for this system's architecture or another. Neither the lists of this system nor
    /// what it has installed are touched.
    pub(crate) fn of(suites: &[&str], architecture: Option<&str>, folder: PathBuf) -> Result<Self> {
        let folder = process::empty(folder)?;
        for below in ["lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(folder.join(below))?;
        }
        fs::write(folder.join("status"), "")?;
        let source = |suite: &&str| format!("deb [signed-by={KEY}] {MIRROR} {suite} main\n");
        fs::write(folder.join("sources.list"), suites.iter().map(source).collect::<String>())?;
        let at = folder.display();
        let architecture =
            architecture.map(|it| format!("APT::Architecture \"{it}\";\nAPT::Architectures \"{it}\";\n"));
        let config = format!(
            "Dir::Etc::SourceList \"{at}/sources.list\";\nDir::Etc::SourceParts \"{at}/parts\";\nDir::State::lists \"{at}/lists\";\n\
            Dir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache\";\nAcquire::Languages \"none\";\n{}",
            architecture.unwrap_or_default()
        );
        fs::write(folder.join("config"), config)?;
        let apt = Self { folder: Some(folder) };
        apt.run("apt-get", &["update"], Path::new("."))?;
        Ok(apt)
    }

    /// Returns the folder to which its programs fetch packages by themselves.
    pub(crate) fn archives(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("cache/archives"))
    }

    /// Runs one of apt's programs in a folder. Returns what it printed.
    pub(crate) fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String> {
        let mut command = Command::new(program);
        // As root, it would drop its rights, and then can't write to the folder.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]).args(words).current_dir(folder);
        command.envs(self.folder.iter().map(|folder| ("APT_CONFIG", folder.join("config"))));
        process::output(&mut command)
    }

    /// Returns the package with this start on which another one depends.
    pub(crate) fn dependency(&self, package: &str, start: &str) -> Result<String> {
        let answer = self.run("apt-cache", &["depends", package], Path::new("."))?;
        let found = depends(&answer).find(|name| name.starts_with(start)).map(str::to_owned);
        found.with_context(|| format!("apt-cache knows no {package}"))
    }

    /// Unpacks a package in a folder.
    pub(crate) fn fetch(&self, package: &str, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        self.run("apt-get", &["download", package], folder)?;
        ensure!(unpack_all(folder, folder)? == 1, "apt-get download left no package");
        Ok(())
    }
}

/// Unpacks the packages that lie in a folder in another one. They go. Returns how many there were.
pub(crate) fn unpack_all(packages: &Path, folder: &Path) -> Result<usize> {
    let packages: Vec<_> =
        entries(packages).filter(|path| path.extension().is_some_and(|kind| kind == "deb")).collect();
    for package in &packages {
        process::output(Command::new("dpkg").arg("-x").args([&**package, folder]))?;
        fs::remove_file(package)?;
    }
    Ok(packages.len())
}

/// Returns the packages that the answer of `apt-cache depends` names.
pub(crate) fn depends(answer: &str) -> impl Iterator<Item = &str> {
    answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: "))
}

/// Returns what lies in a folder; nothing if there is none.
pub(crate) fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
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
    }
}
