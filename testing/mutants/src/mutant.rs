//! The mutants of a tree: all sites of the crates, those that a seed draws, and those with a name.

use crate::Failure;
use crate::switch::Edit;
use crate::syntax::{self, Found, Site};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A crate that is changed.
pub(crate) struct Crate {
    /// The first part of the names of its files.
    prefix: &'static str,
    /// Its sources, from the root of the tree.
    pub(crate) folder: &'static str,
    /// The packages whose tests look at it.
    pub(crate) tests: &'static [&'static str],
}

/// The packages that test the core on machines that are made up.
pub(crate) const OF_CORE: &[&str] = &[
    "vmalloc-map",
    "vmalloc",
    "vmalloc-short",
    "vmalloc-model",
    "vmalloc-sim",
    "vmalloc-programs",
    "vmalloc-conformance",
];

/// The crates that are changed: the core, and what stands on it. The one without a prefix is last.
pub(crate) const CRATES: [Crate; 9] = [
    Crate { prefix: "map/", folder: "crates/vmalloc-map/src/", tests: OF_CORE },
    Crate { prefix: "short/", folder: "crates/vmalloc-short/src/", tests: OF_CORE },
    Crate { prefix: "linux/", folder: "crates/vmalloc-linux/src/", tests: &["vmalloc-linux"] },
    Crate { prefix: "stacks/", folder: "crates/vmalloc-stacks/src/", tests: &["vmalloc-stacks"] },
    Crate { prefix: "slots/", folder: "crates/vmalloc-slots/src/", tests: &["vmalloc-slots"] },
    Crate { prefix: "malloc/", folder: "crates/vmalloc-malloc/src/", tests: &["vmalloc-malloc"] },
    Crate { prefix: "percpu/", folder: "crates/vmalloc-percpu/src/", tests: &["vmalloc-percpu"] },
    Crate { prefix: "subspaces/", folder: "crates/vmalloc-subspaces/src/", tests: &["vmalloc-subspaces"] },
    Crate { prefix: "", folder: "crates/vmalloc/src/", tests: OF_CORE },
];
/// The modules with sites: of the core its own, and all of the other crates.
const MODULES: [&str; 12] = [
    "map",
    "short",
    "linux",
    "stacks",
    "slots",
    "malloc",
    "percpu",
    "subspaces",
    "areas",
    "wait",
    "purge",
    "space",
];
/// Files of tests and of checks, and roots of crates.
const TESTS: [&str; 8] =
    ["tests", "models", "verify", "verify_space", "tree_check", "check", "testing", "lib"];
/// Files of the map that build values, hold records, or stand for atomics.
const VALUES: [&str; 7] = ["addr", "error", "fit", "page_set", "shared", "sync", "map/sync"];
/// The most sites that are drawn of a function.
const A_FUNCTION: usize = 2;

/// A source file.
pub(crate) struct Source {
    /// Its name, from the folder of the sources.
    pub(crate) file: String,
    pub(crate) text: String,
    found: Found,
}

/// Why a mutant is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is in the list of named ones.
    Named,
    /// It was drawn, or is in one of the lists of results.
    Drawn,
}

/// A change that can be switched on.
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    /// Each with the index of its file.
    pub(crate) edits: Vec<(usize, Edit)>,
    /// The tests that each have to catch it: see [`Explored`]. Without any, one of all tests has
    /// to.
    pub(crate) explored: Vec<Explored>,
}

/// A test of explored schedules, or of a model of weak memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(crate) struct Explored {
    pub(crate) package: String,
    pub(crate) test: String,
    /// So many schedules, where it explores them.
    #[serde(default)]
    pub(crate) schedules: u32,
}

/// An entry of the list of named mutants: a site, or changes that have a name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    site: Option<String>,
    name: Option<String>,
    #[serde(default)]
    file: String,
    #[serde(default)]
    function: String,
    #[serde(default)]
    before: String,
    #[serde(default)]
    after: String,
    /// What changes along with it.
    #[serde(default)]
    also: Vec<Change>,
    #[serde(default)]
    explored: Vec<Explored>,
}

/// A text of a function, and what replaces it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    file: String,
    function: String,
    before: String,
    after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedList {
    mutant: Vec<Named>,
}

impl Source {
    /// Returns the line of a place, and its text.
    pub(crate) fn line(&self, place: &Range<usize>) -> (usize, &str) {
        let line = self.text[..place.start].matches('\n').count() + 1;
        (line, &self.text[place.clone()])
    }
}

/// Reads the sources of the crates below `root`.
pub(crate) fn sources(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut files = Vec::new();
    for module in MODULES {
        list(root, module, &mut files)?;
    }
    files.sort();
    let read = |file: String| {
        let text = fs::read_to_string(root.join(path(&file)))?;
        let found = syntax::read(&file, &text).map_err(|error| format!("{file}: {error}"))?;
        Ok(Source { file, text, found })
    };
    files.into_iter().map(read).collect()
}

/// Returns the path of a file, from the root of the tree.
pub(crate) fn path(file: &str) -> String {
    let of = |of: &Crate| Some(format!("{}{}", of.folder, file.strip_prefix(of.prefix)?));
    CRATES.iter().find_map(of).unwrap_or_default()
}

/// Returns the packages whose tests look at a file.
pub(crate) fn tests(file: &str) -> &'static [&'static str] {
    CRATES.iter().find(|of| file.starts_with(of.prefix)).map_or(&[], |of| of.tests)
}

fn list(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(path(&format!("{folder}/"))))? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        let file = format!("{folder}/{name}");
        let is_value = |stem: &str| folder == "map" && VALUES.contains(&stem);
        match name.strip_suffix(".rs") {
            Some(stem) if !TESTS.contains(&stem) && !is_value(stem) => files.push(file),
            None if !VALUES.contains(&file.as_str()) && root.join(path(&file)).is_dir() => {
                list(root, &file, files)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the mutants that `list` names. They have no numbers yet.
pub(crate) fn named(sources: &[Source], list: &str) -> Result<Vec<Mutant>, Failure> {
    let list: NamedList = toml::from_str(list)?;
    let (found, missing): (Vec<_>, Vec<_>) =
        list.mutant.into_iter().map(|named| find(sources, named)).partition(Result::is_ok);
    let missing: Vec<String> = missing.into_iter().filter_map(Result::err).map(|it| it.to_string()).collect();
    if missing.is_empty() { found.into_iter().collect() } else { Err(missing.join("\n").into()) }
}

fn find(sources: &[Source], named: Named) -> Result<Mutant, Failure> {
    if let Some(name) = &named.site {
        let mut sites = sites(sources);
        let (source, site) = sites.find(|(_, site)| site.name == *name).ok_or(format!("no site {name}"))?;
        return Ok(mutant(source, site, Origin::Named));
    }
    let Named { name, file, function, before, after, also, explored, .. } = named;
    let name = name.ok_or("a mutant with neither `site` nor `name`")?;
    let changes = [Change { file, function, before, after }].into_iter().chain(also);
    let edits: Result<_, String> = changes.map(|change| edit(sources, change)).collect();
    let edits = edits.map_err(|error| format!("{name}: {error}"))?;
    Ok(Mutant { name, origin: Origin::Named, edits, explored })
}

/// Returns the index of a change's file, and its place.
fn edit(sources: &[Source], change: Change) -> Result<(usize, Edit), String> {
    let Change { file, function, before, after } = change;
    let source = sources.iter().position(|source| source.file == file);
    let source = source.ok_or(format!("there is no file {file}"))?;
    let functions = sources[source].found.functions.iter().filter(|(it, _)| *it == function);
    let found: Vec<_> =
        functions.flat_map(|(_, place)| occurrences(&sources[source].text, place.clone(), &before)).collect();
    match &found[..] {
        [range] => Ok((source, Edit { number: 0, range: range.clone(), after })),
        _ => Err(format!("the text is {} times in {function}", found.len())),
    }
}

/// Returns where `wanted` is in a part of `text`, however the lines are broken.
fn occurrences(text: &str, part: Range<usize>, wanted: &str) -> Vec<Range<usize>> {
    let dense = |text: &str| -> Vec<(usize, char)> {
        text.char_indices().filter(|(_, letter)| !letter.is_whitespace()).collect()
    };
    let (text, wanted) = (dense(&text[part.clone()]), dense(wanted));
    let windows = text.windows(wanted.len().max(1));
    let is_equal = |window: &&[(usize, char)]| window.iter().map(|it| it.1).eq(wanted.iter().map(|it| it.1));
    let place = |window: &[(usize, char)]| {
        let (first, (last, letter)) = (window[0].0, window[window.len() - 1]);
        part.start + first..part.start + last + letter.len_utf8()
    };
    windows.filter(is_equal).map(place).collect()
}

fn sites(sources: &[Source]) -> impl Iterator<Item = (usize, &Site)> {
    sources.iter().enumerate().flat_map(|(source, it)| it.found.sites.iter().map(move |site| (source, site)))
}

fn mutant(source: usize, site: &Site, origin: Origin) -> Mutant {
    let edit = Edit { number: 0, range: site.range.clone(), after: site.after.clone() };
    Mutant { name: site.name.clone(), origin, edits: vec![(source, edit)], explored: Vec::new() }
}

/// Draws `count` sites, two of a function at most, of each module as many as it has part of all
/// sites; and takes those that are `listed`. Sites in `but` are not taken.
///
/// A site is drawn by a number of its name, so a change of one function leaves most others drawn.
pub(crate) fn draw(
    sources: &[Source],
    seed: u64,
    count: usize,
    listed: &BTreeSet<String>,
    but: &BTreeSet<String>,
) -> Vec<Mutant> {
    let mut modules: BTreeMap<&str, Vec<(u64, usize, &Site)>> = BTreeMap::new();
    for (source, site) in sites(sources).filter(|(_, site)| !but.contains(&site.name)) {
        let module = site.name.split('/').next().unwrap_or_default();
        modules.entry(module).or_default().push((hash(seed, &site.name), source, site));
    }
    let all: usize = modules.values().map(Vec::len).sum();
    let (mut drawn, mut seen, mut wanted) = (Vec::new(), 0, 0);
    for sites in modules.values_mut() {
        sites.sort_by_key(|(number, ..)| *number);
        seen += sites.len();
        let before = std::mem::replace(&mut wanted, seen * count / all);
        let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut left = wanted - before;
        for (_, source, site) in sites {
            let taken = functions.entry(function(&site.name)).or_default();
            let is_drawn = left > 0 && *taken < A_FUNCTION;
            if is_drawn {
                (*taken, left) = (*taken + 1, left - 1);
            }
            if is_drawn || listed.contains(&site.name) {
                drawn.push(mutant(*source, site, Origin::Drawn));
            }
        }
    }
    drawn
}

/// Returns a site's file and function.
fn function(name: &str) -> &str {
    let end = name.match_indices(':').nth(1).map_or(name.len(), |(place, _)| place);
    &name[..end]
}

/// Returns all sites.
pub(crate) fn all(sources: &[Source]) -> Vec<Mutant> {
    sites(sources).map(|(source, site)| mutant(source, site, Origin::Drawn)).collect()
}

/// Returns a number of a name that looks drawn: FNV-1a, and the finish of SplitMix64.
fn hash(seed: u64, name: &str) -> u64 {
    let fnv = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, fnv);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, text: &str) -> Source {
        let found = syntax::read(file, text).unwrap();
        Source { file: file.to_owned(), text: text.to_owned(), found }
    }

    const TEXT: &str = "fn f() { a(); b(); c(); } fn g() { a(); }";

    #[test]
    fn two_sites_of_a_function_are_drawn_at_most_and_listed_ones_as_well() {
        let sources = [source("space/a.rs", TEXT)];
        let none = BTreeSet::new();
        assert_eq!(draw(&sources, 7, 4, &none, &none).len(), 3);
        let all = (1..=3).map(|nth| format!("space/a.rs:f:delete:{nth}")).collect();
        assert!(draw(&sources, 7, 1, &all, &none).len() >= 3);
        assert_eq!(draw(&sources, 7, 4, &none, &all).len(), 1);
    }

    #[test]
    fn a_named_text_is_found_in_its_function_however_it_is_broken() {
        let sources = [source("space/a.rs", TEXT)];
        let list = "[[mutant]]\nname = 'n'\nfile = 'space/a.rs'\nfunction = 'f'\nbefore = '''a();\n  b();'''\nafter = ''";
        let found = named(&sources, list).unwrap();
        assert_eq!(&TEXT[found[0].edits[0].1.range.clone()], "a(); b();");
        assert!(named(&sources, &list.replace("'f'", "'g'")).is_err());
        assert!(named(&sources, "[[mutant]]\nsite = 'space/a.rs:g:delete:1'").is_ok());
    }
}
