//! The crates of this repository, and their source files.

use super::lines::Lines;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of crates.
const FOLDERS: [&str; 3] = ["crates", "testing", "lab"];

/// A crate.
pub(crate) struct Package {
    /// Its folder, from the root of the repository.
    pub(crate) folder: String,
    pub(crate) files: Vec<File>,
}

/// A source file.
pub(crate) struct File {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
    pub(crate) lines: Lines,
}

impl Package {
    /// Returns the path of `file` inside the crate.
    pub(crate) fn inside<'a>(&self, file: &'a File) -> &'a str {
        file.path[self.folder.len()..].trim_start_matches('/')
    }
}

impl File {
    /// Returns true if the whole file is a test or a model, and no part of what is built.
    pub(crate) fn is_test(&self) -> bool {
        let path = Path::new(&self.path);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // Explored schedules and models have facades of their own, which no ordinary build has.
        let is_test_name =
            ["tests", "models", "explored", "hooked", "modelled"].contains(&stem) || stem.ends_with("_tests");
        let in_tests =
            |part: &std::ffi::OsStr| ["tests", "benches", "examples"].iter().any(|name| part == *name);
        // The first two parts are the folder of the crate.
        is_test_name || path.parent().is_some_and(|folder| folder.iter().skip(2).any(in_tests))
    }

    /// Returns the file with a line number, as compilers print it.
    pub(crate) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

/// Reads the source files of all crates.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let mut all = Vec::new();
    for folder in FOLDERS.iter().flat_map(|folder| entries(Path::new(folder))) {
        if folder.join("Cargo.toml").exists() {
            all.push(package(&folder)?);
        }
    }
    Ok(all)
}

/// Reads the source files of the crate in `folder`.
pub(crate) fn package(folder: &Path) -> Result<Package> {
    let mut paths = Vec::new();
    sources(folder, &mut paths);
    let files = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    Ok(Package { folder: folder.display().to_string(), files })
}

fn read(path: &Path) -> Result<File> {
    let text = crate::read(path)?;
    let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
    let lines = Lines::of(&text);
    Ok(File { path: path.display().to_string(), text, syntax, lines })
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
