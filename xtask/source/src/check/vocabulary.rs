//! Rules of the words of the public API, as the snapshots in `docs/api` tell it. The table of the words is in
//! `docs/glossary.md`.

use super::Violation;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const FOLDER: &str = "docs/api";
/// The names of C are words of C.
const OTHER_WORDS: &str = "vmalloc-c.txt";
/// Ends of names of types, and the word that stands for each.
const TYPES: [(&str, &str); 4] =
    [("Config", "Options"), ("Settings", "Options"), ("Placement", "Request"), ("Guards", "GuardMeans")];
/// Types that two crates have: `vmalloc-inspect` tells from outside what a process tells of itself.
const TWICE: [&str; 2] = ["Place", "Segment"];
/// Methods that no type has, and the word that stands for each.
const METHODS: [(&str, &str); 6] = [
    ("bytes_mut", "get_mut"),
    ("config", "options"),
    ("guards", "guard_means"),
    ("settings", "options"),
    ("size", "len"),
    ("usable_size", "capacity"),
];
/// Types that are asked about an address, by malloc_usable_size(3).
const ASKED: [&str; 2] = ["LargeHeap", "Space"];
/// Beginnings of the names of switches: each is a setter with a bool.
const NEGATIVES: [&str; 3] = ["dont_", "no_", "without_"];
/// Types with an address and no length: several areas, and a slice whose length is that of its `Deref`.
const NO_LENGTH: [&str; 2] = ["Buffer", "CongruentAreas"];

pub(super) fn check(found: &mut Vec<Violation>) -> Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(FOLDER).context(FOLDER)? {
        let path = entry?.path();
        if !path.ends_with(OTHER_WORDS) {
            let text = crate::read(&path)?;
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    let wrong = wrong(lines.iter().map(String::as_str)).into_iter();
    found.extend(wrong.map(|(place, what)| Violation::new("vocabulary", "docs", place, what)));
    Ok(())
}

/// Returns the types and methods that break a rule, and how.
fn wrong<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut crates: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        if let Some(path) = of_type(line) {
            let name = path.rsplit("::").next().unwrap_or(path);
            crates.entry(name).or_default().insert(path.split("::").next().unwrap_or(path));
            all.extend(wrong_type(name).map(|what| (path.to_owned(), what)));
        } else if let Some((path, signature)) = of_method(line) {
            let (owner, name) = path.rsplit_once("::").unwrap_or(("", path));
            methods.entry(owner).or_default().insert(name);
            all.extend(wrong_method(owner, name, signature).map(|what| (path.to_owned(), what)));
        }
    }
    for (name, crates) in crates {
        if crates.len() > 1 && !TWICE.contains(&name) {
            let crates: Vec<_> = crates.into_iter().collect();
            all.push((name.to_owned(), format!("is a type of {}", crates.join(" and of "))));
        }
    }
    for (owner, names) in methods {
        let lacks = ["len", "as_ptr"].into_iter().find(|name| !names.contains(name));
        let is_free = NO_LENGTH.iter().any(|name| owner.ends_with(&format!("::{name}")));
        if let Some(lacks) = lacks.filter(|_| names.contains("addr") && !is_free) {
            all.push((owner.to_owned(), format!("has addr and no {lacks}")));
        }
    }
    all
}

/// Returns the path of a type that a line declares.
fn of_type(line: &str) -> Option<&str> {
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let (kind, rest) = line.split_once(' ')?;
    let is_type = ["enum", "struct", "trait", "type"].contains(&kind);
    is_type.then(|| rest.split(": ").next().unwrap_or(rest))
}

/// Returns the path of a method that a line declares, and its signature.
fn of_method(line: &str) -> Option<(&str, &str)> {
    let (path, signature) = line.split_once(": ")?;
    let is_method = signature.contains("fn ") && !path.contains(' ') && path.matches("::").count() > 1;
    is_method.then_some((path, signature))
}

fn wrong_type(name: &str) -> Option<String> {
    let word = TYPES.iter().find(|(end, _)| name.ends_with(end)).map(|(_, word)| *word);
    let word = word.or((name == "Options").then_some("Options with the name of what is opened"));
    word.map(|word| format!("the word is {word}"))
}

fn wrong_method(owner: &str, name: &str, signature: &str) -> Option<String> {
    let is_asked = name == "usable_size" && ASKED.iter().any(|asked| owner.ends_with(&format!("::{asked}")));
    let word = METHODS.iter().find(|(method, _)| *method == name && !is_asked).map(|(_, word)| *word);
    if let Some(word) = word {
        return Some(format!("the word is {word}"));
    }
    if NEGATIVES.iter().any(|negative| name.starts_with(negative)) {
        return Some("a switch is a setter with a bool".into());
    }
    let lends = signature.split_once("->").is_some_and(|(_, returned)| returned.contains("&["));
    (name == "bytes" && lends).then(|| "bytes is a number of bytes".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        wrong(text.lines()).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn words_that_were_given_up_are_found_again() {
        let types = "struct vmalloc::Config\nstruct vmalloc_slots::Options\nenum vmalloc_linux::Guards\n\
                     struct vmalloc_stacks::StackSettings\nstruct vmalloc_subspaces::Placement";
        assert_eq!(places(types).len(), 5);
        let methods = "vmalloc::Buffer::usable_size: fn usable_size(&self) -> usize\n\
                       vmalloc_slots::Slot::size: fn size(&self) -> usize\n\
                       vmalloc::Request::without_guard: const fn without_guard(mut self) -> Self\n\
                       vmalloc::Mapping::bytes: fn bytes(&self) -> &[AtomicU8]\n\
                       vmalloc_linux::Ring::bytes: fn bytes(&self, at: usize) -> Option<&[u8]>";
        assert_eq!(places(methods).len(), 5);
        let twice = "enum vmalloc_linux::OpenError\nenum vmalloc_stacks::OpenError";
        assert_eq!(places(twice), ["OpenError"]);
        let short =
            "vmalloc::Area::addr: fn addr(&self) -> usize\nvmalloc::Area::len: fn len(&self) -> usize";
        assert_eq!(places(short), ["vmalloc::Area"]);
    }

    #[test]
    fn the_words_of_the_table_are_right() {
        let right = "struct vmalloc::SpaceOptions\nenum vmalloc_linux::OpenError: Error\n\
                     struct vmalloc_map::Segment\nstruct vmalloc_inspect::Segment\n\
                     vmalloc::Request::bytes: const fn bytes(&self) -> usize\n\
                     vmalloc::Request::guard: const fn guard(mut self, guard: bool) -> Self\n\
                     vmalloc::Space::usable_size: fn usable_size(&self, addr: usize) -> Option<usize>\n\
                     vmalloc_linux::Ring::addr: fn addr(&self) -> usize\n\
                     vmalloc_linux::Ring::as_ptr: fn as_ptr(&self) -> * mut u8\n\
                     vmalloc_linux::Ring::len: fn len(&self) -> usize";
        assert_eq!(places(right), <[String; 0]>::default());
    }
}
