//! The copy of the workspace in which the core has its switches.

use crate::Failure;
use crate::mutant::{CRATES, Mutant, Source, path};
use crate::switch::{Edit, switch};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module that reads which mutant is on.
const SWITCH: &str = include_str!("copied_mutant.rs");

/// Where the edits lie in the copied files, with their numbers.
pub(crate) type Places = BTreeMap<String, Vec<(u32, Range<usize>)>>;

/// Copies all files that git would keep from `root` to `tree`, the core with `mutants`. Their
/// numbers are their places in the list, counted from 1. A file that is there already, with the
/// same content, is not written again.
pub(crate) fn copy(
    root: &Path,
    tree: &Path,
    sources: &[Source],
    mutants: &[Mutant],
) -> Result<Places, Failure> {
    let mut edits: BTreeMap<usize, Vec<Edit>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(mutants) {
        for (source, edit) in &mutant.edits {
            edits.entry(*source).or_default().push(Edit { number, ..edit.clone() });
        }
    }
    let (mut texts, mut places) = (BTreeMap::new(), Places::new());
    for (source, edits) in edits {
        let source = &sources[source];
        let name = |number: u32| &mutants[number as usize - 1].name;
        let switched = switch(&source.text, &edits)
            .map_err(|(one, other)| format!("{} and {} overlap", name(one), name(other)))?;
        let path = path(&source.file);
        texts.insert(path.clone(), switched.text);
        places.insert(path, switched.places);
    }
    texts.extend(switches(root)?);
    let mut files: BTreeSet<String> = files(root)?;
    files.extend(texts.keys().cloned());
    for file in &files {
        match texts.get(file) {
            Some(text) => write(&tree.join(file), text.as_bytes())?,
            None => write(&tree.join(file), &fs::read(root.join(file))?)?,
        }
    }
    remove_others(tree, tree, &files)?;
    Ok(places)
}

/// Returns the module of the switch for each crate, and the root that has it.
fn switches(root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    for of in CRATES {
        let lib = format!("{}lib.rs", of.folder);
        let text = fs::read_to_string(root.join(&lib))?;
        texts.push((lib, text + "\nmod mutant;\n"));
        texts.push((format!("{}mutant.rs", of.folder), SWITCH.to_owned()));
    }
    Ok(texts)
}

/// Lists the files that git has, or would add.
fn files(root: &Path) -> Result<BTreeSet<String>, Failure> {
    let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(words).current_dir(root).output()?;
    let files = String::from_utf8(output.stdout)?;
    let is_there = |file: &&str| !file.is_empty() && root.join(file).is_file();
    Ok(files.split('\0').filter(is_there).map(str::to_owned).collect())
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    Ok(fs::write(path, content)?)
}

/// Removes files of an earlier copy, and folders that are empty then: cargo would take one for a
/// package.
fn remove_others(tree: &Path, folder: &Path, files: &BTreeSet<String>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            remove_others(tree, &path, files)?;
            // It is refused where something is left.
            let _ = fs::remove_dir(path);
        } else if !path.strip_prefix(tree)?.to_str().is_some_and(|file| files.contains(file)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
