//! The page of the architecture is short, and its drawings name functions that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The most bytes of the page.
const MOST: usize = 25 * 1024;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the names in drawings that have `()` behind them.
fn drawn(page: &str) -> BTreeSet<String> {
    let drawings = page.split("```").skip(1).step_by(2);
    let names = drawings.flat_map(|drawing| drawing.split("()").map(last_word).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the name that `text` ends with, or nothing.
fn last_word(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.rsplit(|c| !is_part(c)).next().unwrap_or_default().to_owned()
}

/// Returns the names of all functions in a folder.
fn functions(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it is there").path();
        if path.is_dir() {
            all.extend(functions(&path));
            continue;
        }
        let text = fs::read_to_string(&path).expect("it can be read");
        let names = text.split("fn ").skip(1).map(|rest| {
            rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        all.extend(names);
    }
    all
}

/// Returns the paths in the tables, each with what it may be relative to.
fn paths(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.filter(|name| name.contains('/') && !name.contains(' ')).collect()
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
    let mut known = functions(&root().join("crates/vmalloc/src"));
    known.extend(functions(&root().join("crates/vmalloc-map/src")));
    let missing: Vec<_> = drawn.difference(&known).collect();
    assert!(missing.is_empty(), "no function of the core is named {missing:?}");
}

#[test]
fn tables_name_files_that_exist() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let bases = ["", "crates", "crates/vmalloc/src", "crates/vmalloc-linux/src"];
    let exists = |name: &&str| {
        // A file of a crate may be named without `src`.
        let within = name.replacen("vmalloc-map/", "vmalloc-map/src/", 1);
        bases.iter().any(|base| [*name, &within].iter().any(|name| root().join(base).join(name).exists()))
    };
    let missing: Vec<_> = paths(&page).into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "there is no {missing:?}");
}
