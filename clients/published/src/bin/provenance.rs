//! `cargo xtask provenance`: what is committed below clients/ is ours.

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};
use toml::{Table, Value};

/// Compare what is committed for the clients with the published sources of the packages that they name
///
/// A client names a package as a dependency, or below `package.metadata.published`. Sources that cargo has not unpacked yet are fetched. A file
/// fails if more than five of its longer lines are also lines of such a package.
#[derive(Parser)]
#[command(name = "cargo xtask provenance", bin_name = "cargo xtask provenance")]
struct Args {
    /// Only these clients: names of folders.
    clients: Vec<String>,
    /// Print every equal line, those of files that pass too.
    #[arg(long)]
    all: bool,
}

const ROOT: &str = "clients";
/// Lines that are shorter say too little: a brace, a call, a common signature.
const SHORTEST: usize = 28;
/// Equal lines that a file may have: an interface dictates some.
const MOST: usize = 5;

/// The lines of packages that are long enough to compare.
type Lines = HashSet<String>;

fn main() -> Result<()> {
    let args = Args::parse();
    let mut known = BTreeMap::new();
    let mut copies = 0;
    for client in folders(Path::new(ROOT))? {
        let name = client.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if args.clients.is_empty() || args.clients.contains(&name) {
            copies += check(&client, &mut known, args.all)?;
        }
    }
    ensure!(copies == 0, "{copies} files have lines of published sources");
    Ok(())
}

/// Compares the files of a client. Returns how many have lines of others.
fn check(client: &Path, known: &mut BTreeMap<String, Option<Lines>>, all: bool) -> Result<usize> {
    let files = committed(client)?;
    let packages = packages(&files)?;
    for (name, version) in &packages {
        known.entry(format!("{name}-{version}")).or_insert_with(|| {
            let source = published::fetched(name, version);
            let source = source.inspect_err(|error| {
                vmalloc_harness::not_run(format!("provenance of {}", client.display()), error);
            });
            source.ok().map(|folder| lines_of(&folder))
        });
    }
    let sources: Vec<_> = packages
        .iter()
        .map(|(name, version)| format!("{name}-{version}"))
        .filter_map(|package| known.get(&package).and_then(Option::as_ref).map(|lines| (package, lines)))
        .collect();
    let mut copies = 0;
    for file in files.iter().filter(|file| !file.ends_with("Cargo.lock")) {
        // A file that is no text has no lines to compare.
        let Ok(text) = fs::read_to_string(file) else { continue };
        let equal = equal(&text, &sources);
        let is_copy = equal.len() > MOST;
        copies += usize::from(is_copy);
        if is_copy || all {
            equal.iter().for_each(|line| println!("{}:{line}", file.display()));
        }
    }
    println!("{}: {} files beside {} packages", client.display(), files.len(), sources.len());
    Ok(copies)
}

/// Returns the lines of a text that a source has, each with its number and the package.
fn equal(text: &str, sources: &[(String, &Lines)]) -> Vec<String> {
    let numbered = text.lines().enumerate();
    let found = numbered.filter_map(|(nth, line)| {
        let compared = compared(line)?;
        let (package, _) = sources.iter().find(|(_, lines)| lines.contains(&compared))?;
        Some(format!("{}: of {package}: {}", nth + 1, line.trim()))
    });
    found.collect()
}

/// Returns a line without its spaces, unless it is too short or common.
fn compared(line: &str) -> Option<String> {
    // A patch has a sign before each line.
    let line = line.strip_prefix(['+', '-']).unwrap_or(line);
    let is_common = is_common(line.trim());
    let line: String = line.split_whitespace().collect();
    (!is_common && line.chars().count() >= SHORTEST).then_some(line)
}

/// Returns whether a line is of an import, an attribute or the head of an item. An interface dictates those to all that use it.
fn is_common(line: &str) -> bool {
    let words = ["pub ", "pub(crate) ", "const ", "unsafe "];
    let head = words.iter().fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    let is_head = ["use ", "#[", "fn ", "struct ", "impl ", "impl<", ") ->"]
        .iter()
        .any(|start| head.starts_with(start));
    // A line of an import that takes several has names alone.
    let is_name = |sign: char| sign.is_alphanumeric() || "_:{}, ".contains(sign);
    is_head || line.ends_with(',') && line.chars().all(is_name)
}

/// Returns the lines of all files in a folder that are text.
fn lines_of(folder: &Path) -> Lines {
    let mut lines = Lines::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            lines.extend(lines_of(&path));
        } else if let Ok(text) = fs::read_to_string(&path) {
            lines.extend(text.lines().filter_map(compared));
        }
    }
    lines
}

/// Returns the packages of the registry that a client names, with the versions that its lock files hold.
fn packages(files: &[PathBuf]) -> Result<BTreeSet<(String, String)>> {
    let (mut names, mut found, mut locked) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for file in files {
        if file.ends_with("Cargo.toml") {
            let manifest = table(file)?;
            dependencies(&manifest, &mut names);
            found.extend(to_fetch(&manifest));
        } else if file.ends_with("Cargo.lock") {
            locked.extend(versions(&table(file)?));
        }
    }
    found.extend(locked.into_iter().filter(|(name, _)| names.contains(name)));
    Ok(found)
}

/// Adds the names of a manifest's dependencies that come from the registry, for whatever system they are.
fn dependencies(manifest: &Table, names: &mut BTreeSet<String>) {
    for (section, value) in manifest {
        let Some(entries) = value.as_table() else { continue };
        match section.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                for (name, how) in entries.iter().filter(|(_, how)| how.get("path").is_none()) {
                    names.insert(how.get("package").and_then(Value::as_str).unwrap_or(name).to_owned());
                }
            }
            "target" => entries.values().filter_map(Value::as_table).for_each(|of| dependencies(of, names)),
            _ => {}
        }
    }
}

/// Returns the packages that a manifest names for us alone.
fn to_fetch(manifest: &Table) -> Vec<(String, String)> {
    let named = manifest.get("package").and_then(|it| it.get("metadata")?.get("published")?.as_table());
    let named = named.into_iter().flatten();
    named.filter_map(|(name, version)| Some((name.clone(), version.as_str()?.to_owned()))).collect()
}

/// Returns the packages of a lock file that come from a registry.
fn versions(lock: &Table) -> Vec<(String, String)> {
    let packages = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let published = packages.filter(|package| package.get("source").is_some());
    let text = |package: &Value, key| package.get(key).and_then(Value::as_str).map(str::to_owned);
    published.filter_map(|package| Some((text(package, "name")?, text(package, "version")?))).collect()
}

fn table(path: &Path) -> Result<Table> {
    let read = || Ok::<_, anyhow::Error>(fs::read_to_string(path)?.parse()?);
    read().with_context(|| path.display().to_string())
}

/// Returns the files of a folder that git knows.
fn committed(folder: &Path) -> Result<Vec<PathBuf>> {
    let error = || anyhow!("git does not list the files of {folder:?}");
    let output = Command::new("git").args(["ls-files", "-z", "--"]).arg(folder).output();
    let output = output.ok().filter(|output| output.status.success()).ok_or_else(error)?;
    let names = String::from_utf8(output.stdout).map_err(|_| error())?;
    let paths = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A file may be removed, and that not committed yet.
    Ok(paths.filter(|path| path.exists()).collect())
}

fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = root.read_dir().and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| root.display().to_string())?;
    let mut folders: Vec<_> = entries.iter().map(fs::DirEntry::path).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "
use a::long::path::of::something::Else;
/// Finds the first range that is large enough.
fn first_that_is_large_enough(&self, size: usize) {
    // A list is short, so that a walk over it is fast enough.
    let index = self.ranges.iter().position(|range| range.len() >= size);
    let range = self.ranges.remove(index.unwrap_or_default());
    self.taken.push((range.start, range.start + size));
    self.ranges.push(range.start + size..range.end);
}
";

    fn lines(text: &str) -> Lines {
        text.lines().filter_map(compared).collect()
    }

    #[test]
    fn a_copied_file_has_too_many_equal_lines() {
        let theirs = lines(THEIRS);
        let copied = THEIRS.replace("    ", "\t");
        let found = equal(&copied, &[("their-ranges-1.0.0".into(), &theirs)]);
        assert_eq!(found.len(), MOST + 1, "{found:?}");
        assert!(found[0].starts_with("3: of their-ranges-1.0.0: /// Finds the first"), "{found:?}");
        let patch = THEIRS.replace('\n', "\n-");
        assert_eq!(equal(&patch, &[("their-ranges-1.0.0".into(), &theirs)]).len(), MOST + 1);
    }

    #[test]
    fn short_and_common_lines_are_not_compared() {
        let theirs = lines(THEIRS);
        let ours = "use a::long::path::of::something::Else;\n}\nfn first(&self) {\n    self.map.alloc(&Fit::new(size))\n}\n";
        assert!(equal(ours, &[("their-ranges-1.0.0".into(), &theirs)]).is_empty());
    }

    #[test]
    fn packages_are_those_of_the_registry_that_a_client_names() {
        let manifest = "
            [package.metadata.published]
            fetched = \"1.0.0\"
            [dependencies]
            ours = { path = \"../ours\" }
            original = { package = \"theirs\", version = \"=0.3.4\" }
            [target.'cfg(target_os = \"none\")'.dependencies]
            kernel = \"=0.19.0\"
        ";
        let manifest: Table = manifest.parse().unwrap();
        let mut names = BTreeSet::new();
        dependencies(&manifest, &mut names);
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["kernel", "theirs"]);
        assert_eq!(to_fetch(&manifest), [("fetched".to_owned(), "1.0.0".to_owned())]);
        let lock = "[[package]]\nname = \"ours\"\nversion = \"1\"\n[[package]]\nname = \"theirs\"\nversion = \"0.3.4\"\nsource = \"registry\"\n";
        assert_eq!(versions(&lock.parse().unwrap()), [("theirs".to_owned(), "0.3.4".to_owned())]);
    }
}
