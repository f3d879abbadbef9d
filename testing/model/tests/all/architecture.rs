//! The page of the architecture is short, and its drawings name functions that exist.

use crate::{files, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The most bytes of the page.
const MOST: usize = 25 * 1024;

/// Returns the names in drawings that have `()` behind them.
fn drawn(page: &str) -> BTreeSet<String> {
    let drawings = page.split("```").skip(1).step_by(2);
    let names = drawings.flat_map(|drawing| drawing.split("()").map(last_word).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty()).collect()
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the name that `text` ends with, or nothing.
fn last_word(text: &str) -> String {
    text.rsplit(|c| !is_part(c)).next().unwrap_or_default().to_owned()
}

/// Returns the names of all functions in a folder.
fn functions(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for path in files(folder) {
        let text = fs::read_to_string(&path).expect("it can be read");
        let code = text.split("\nmod tests {").next().unwrap_or_default().lines();
        for line in code.filter(|line| !line.trim_start().starts_with("//")) {
            let name = |rest: &str| rest.split(|c: char| !is_part(c)).next().unwrap_or_default().to_owned();
            all.extend(line.split("fn ").skip(1).map(name));
        }
    }
    all
}

/// Returns the paths and names of files that the page has, outside of drawings.
fn paths(page: &str) -> BTreeSet<&str> {
    let text = page.split("```").step_by(2);
    let quoted = text.flat_map(|text| text.split('`').skip(1).step_by(2));
    let is_path = |name: &&str| name.contains('/') || name.ends_with(".rs");
    quoted.filter(|name| !name.contains([' ', '*', ':', '<'])).filter(is_path).collect()
}

#[test]
fn the_page_is_short() {
    let bytes = fs::metadata(root().join("ARCHITECTURE.md")).expect("it is there").len();
    assert!(bytes <= MOST as u64, "{bytes} bytes are more than {MOST}");
}

#[test]
fn drawings_name_functions_that_exist() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let drawn = drawn(&page);
    assert!(drawn.len() > 40, "{drawn:?}");
    let known: BTreeSet<_> = ["space", "purge", "wait", "areas"]
        .iter()
        .flat_map(|folder| functions(&root().join("crates/vmalloc/src").join(folder)))
        .collect();
    let missing: Vec<_> = drawn.difference(&known).collect();
    assert!(missing.is_empty(), "no function of the core is named {missing:?}");
}

#[test]
fn the_page_names_files_that_exist() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let all = files(&root().join("crates"));
    let exists = |name: &&str| {
        // A file of a crate may be named without `src`, and one beside another by its name alone.
        let within =
            name.replacen("vmalloc-map/", "vmalloc-map/src/", 1).replacen("vmalloc/", "vmalloc/src/", 1);
        let folders = ["", "crates", "crates/vmalloc/src", "crates/vmalloc-map/src"];
        [*name, &within].iter().any(|name| {
            folders.iter().any(|folder| root().join(folder).join(name).exists())
                || name.ends_with(".rs") && all.iter().any(|path| path.ends_with(name))
        })
    };
    let missing: Vec<_> = paths(&page).into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "there is no {missing:?}");
}
