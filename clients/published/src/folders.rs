//! Where cargo has published sources, and copies of folders.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};
use thiserror::Error;

/// The reason why there is no source, or no copy.
#[derive(Debug, Error)]
pub enum Error {
    /// Cargo has no source of the package.
    #[error("cargo has no source of {package}: {why}")]
    Missing {
        /// The package with its version.
        package: String,
        /// What cargo said.
        why: String,
    },
    /// A file or a folder can't be read or written.
    #[error("can't make {path:?}: {cause}")]
    Copy {
        /// The file or the folder.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
}

/// Returns where cargo has unpacked a package that the workspace in `workspace` names in its lock file, as `corosensei-0.3.4`.
///
/// A name without a version finds the package in whatever version is locked.
///
/// # Errors
/// [`Error::Missing`]: the package is no dependency, or cargo can't fetch it.
pub fn folder(workspace: &Path, package: &str) -> Result<PathBuf, Error> {
    let missing = |why: &str| Error::Missing { package: package.into(), why: why.trim().into() };
    let words = ["metadata", "--format-version=1", "--locked", "--manifest-path"];
    let output = cargo().args(words).arg(workspace.join("Cargo.toml")).output();
    let output = output.map_err(|cause| missing(&cause.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let manifests = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut folders = manifests.filter_map(|manifest| Path::new(manifest).parent());
    let found = folders.find(|folder| is_registry(folder) && is_named(folder, package));
    found.map(Path::to_owned).ok_or_else(|| missing(&String::from_utf8_lossy(&output.stderr)))
}

/// Fetches a package that no lock file names, and returns where cargo has unpacked it.
///
/// # Errors
/// [`Error::Missing`]: cargo can't fetch it.
pub fn fetched(name: &str, version: &str) -> Result<PathBuf, Error> {
    let package = format!("{name}-{version}");
    if let Some(folder) = unpacked(&package) {
        return Ok(folder);
    }
    let missing = |why: &str| Error::Missing { package: package.clone(), why: why.trim().into() };
    let words = ["info", "--quiet", "--registry", "crates-io", &format!("{name}@{version}")];
    // Elsewhere cargo would look for the package in the workspace around it.
    let output = cargo().args(words).current_dir(env::temp_dir()).output();
    let output = output.map_err(|cause| missing(&cause.to_string()))?;
    let folder = unpacked(&package).filter(|_| output.status.success());
    folder.ok_or_else(|| missing(&String::from_utf8_lossy(&output.stderr)))
}

/// Fetches a package that the manifest in `workspace` names below `[package.metadata.published]`, and returns where cargo has unpacked it.
///
/// # Errors
/// [`Error::Missing`]: the manifest does not name it, or cargo can't fetch it.
pub fn named(workspace: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = workspace.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|cause| Error::Copy { path, cause })?;
    let missing = || Error::Missing { package: name.into(), why: "the manifest names no version".into() };
    fetched(name, version(&manifest, name).ok_or_else(missing)?)
}

/// Returns the version of a package that a manifest names for us.
fn version<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = manifest.split_once("\n[package.metadata.published]\n")?;
    let mut lines = rest.lines().take_while(|line| !line.starts_with('['));
    lines.find_map(|line| {
        line.strip_prefix(name)?.trim().strip_prefix('=')?.trim().strip_prefix('"')?.strip_suffix('"')
    })
}

/// Returns the folder of a package with its version, if cargo has unpacked it.
fn unpacked(package: &str) -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")))?;
    let registries = home.join("registry/src").read_dir().ok()?;
    let mut folders = registries.flatten().map(|registry| registry.path().join(package));
    // Cargo writes this file when it has unpacked all others.
    folders.find(|folder| folder.join(".cargo-ok").exists())
}

/// Copies a package for the build script that calls this, to its `OUT_DIR`, and returns that folder. The package is one of `workspace`.
///
/// The script runs again when it, its `src` or the lock file of `workspace` changes.
///
/// # Errors
/// [`enum@Error`]: there is no source, or no copy.
///
/// # Panics
/// Where no build script calls this.
pub fn for_build_script(workspace: &Path, package: &str) -> Result<PathBuf, Error> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("a build script calls this"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());
    copy(&folder(workspace, package)?, &out)?;
    Ok(out)
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn is_registry(folder: &Path) -> bool {
    folder.iter().any(|part| part == "registry")
}

/// Returns whether a folder is that of a package, which is named with its version or without.
fn is_named(folder: &Path, package: &str) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
    name == package
        || version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// Copies a folder with all that is in it, and not its permissions: files in cargo's folders may be read-only.
///
/// # Errors
/// [`Error::Copy`]: a file can't be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    each_file(from, to, &|from, to| write(to, &read(from)?))
}

/// Makes a folder hold the files of another one. Leaves files alone that are equal, so that they are not built again.
///
/// # Errors
/// [`Error::Copy`]: a file can't be read or written.
pub fn refresh(from: &Path, to: &Path) -> Result<(), Error> {
    each_file(from, to, &|from, to| {
        let bytes = read(from)?;
        if fs::read(to).is_ok_and(|old| old == bytes) { Ok(()) } else { write(to, &bytes) }
    })
}

fn each_file(from: &Path, to: &Path, act: &dyn Fn(&Path, &Path) -> Result<(), Error>) -> Result<(), Error> {
    if !from.is_dir() {
        return act(from, to);
    }
    let entries = from.read_dir().and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(|cause| Error::Copy { path: from.into(), cause })?;
    entries.iter().try_for_each(|entry| each_file(&entry.path(), &to.join(entry.file_name()), act))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|cause| Error::Copy { path: path.into(), cause })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(path, bytes));
    written.map_err(|cause| Error::Copy { path: path.into(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_with_its_version_or_without() {
        let folder = Path::new("/home/registry/src/index/free-list-0.3.4");
        assert!(is_registry(folder) && is_named(folder, "free-list-0.3.4") && is_named(folder, "free-list"));
        assert!(!is_named(folder, "free") && !is_named(folder, "free-list-0.3"));
        assert!(!is_registry(Path::new("/home/clients/free-list")));
    }

    #[test]
    fn a_manifest_names_versions_of_packages_to_fetch() {
        let manifest = "[package]\npcie = \"1\"\n\n[package.metadata.published]\nrdif-pcie = \"0.3\"\npcie = \"0.7\"\n\n[a]\nb = \"2\"\n";
        assert_eq!(version(manifest, "pcie"), Some("0.7"));
        assert_eq!((version(manifest, "b"), version("[package]\n", "pcie")), (None, None));
    }

    #[test]
    fn files_that_are_equal_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        write(&from.join("a/one"), b"1").unwrap();
        write(&from.join("two"), b"2").unwrap();
        copy(&from, &to).unwrap();
        let time = || fs::metadata(to.join("a/one")).unwrap().modified().unwrap();
        let before = time();
        write(&from.join("two"), b"3").unwrap();
        refresh(&from, &to).unwrap();
        assert_eq!((time(), fs::read(to.join("two")).unwrap()), (before, b"3".to_vec()));
    }
}
