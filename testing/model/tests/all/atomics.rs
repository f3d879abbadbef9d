//! The table of `docs/atomics.md` names every atomic of the products, and no other.

use crate::{files, root};
use std::collections::BTreeSet;
use std::fs;

/// The crates whose atomics the table has.
const PRODUCTS: [&str; 11] = [
    "vmalloc-map",
    "vmalloc",
    "vmalloc-subspaces",
    "vmalloc-short",
    "vmalloc-slots",
    "vmalloc-linux",
    "vmalloc-stacks",
    "vmalloc-malloc",
    "vmalloc-preload",
    "vmalloc-tables",
    "vmalloc-c",
];

/// A file, by its crate and its path below `src`, and the name of a field, a type or a static in
/// it.
type Atomic = (String, String);

/// Returns the rows of the table.
fn told() -> BTreeSet<Atomic> {
    let text = fs::read_to_string(root().join("docs/atomics.md")).expect("it is there");
    let row = |line: &str| {
        let mut cells =
            line.strip_prefix("| `")?.split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        Some((cells.next()?, cells.next()?))
    };
    text.lines().filter_map(row).collect()
}

/// Returns the atomics that the code declares.
fn declared() -> BTreeSet<Atomic> {
    let mut all = BTreeSet::new();
    for product in PRODUCTS {
        let src = root().join("crates").join(product).join("src");
        for path in files(&src) {
            let below = path.strip_prefix(&src).expect("it is below").display().to_string();
            // The facade of atomics is not one; tests and models are no part of a product.
            let is_product = !["sync", "tests.rs", "models.rs"].iter().any(|part| below.contains(part));
            if is_product {
                let text = fs::read_to_string(&path).expect("it can be read");
                let file = format!("{product}/{below}");
                all.extend(names(&text).map(|name| (file.clone(), name)));
            }
        }
    }
    all
}

/// Returns the names of the atomics that a file declares, outside of its tests.
fn names(text: &str) -> impl Iterator<Item = String> + '_ {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    product.lines().map(str::trim).filter(|line| !line.starts_with("//")).filter_map(name)
}

/// Returns the name that a line declares, if its type is or holds an atomic.
fn name(line: &str) -> Option<String> {
    let line = ["pub ", "pub(crate) ", "pub(super) "]
        .iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line);
    // `Lines` is a table of atomics of vmalloc-slots.
    let at = ["AtomicU", "AtomicI", "AtomicBool", "AtomicPtr", "Lines"]
        .iter()
        .filter_map(|kind| line.find(kind))
        .min()?;
    let (before, after) = line.split_at(at);
    if let Some(rest) = before.strip_prefix("fn ") {
        // Words in memory that is mapped: no field has their type.
        return before.ends_with("-> &[").then(|| identifier(rest));
    }
    if let Some(rest) = ["struct ", "static ", "type "].iter().find_map(|word| before.strip_prefix(word)) {
        return Some(identifier(rest));
    }
    // A field; no value, and no import.
    let is_value = after.contains("::") || before.contains("::") || before.contains('(');
    let name = identifier(before);
    (!is_value && before[name.len()..].starts_with(':')).then_some(name)
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect()
}

#[test]
fn every_atomic_is_in_the_table() {
    let (told, declared) = (told(), declared());
    let missing: Vec<_> = declared.difference(&told).collect();
    let gone: Vec<_> = told.difference(&declared).collect();
    assert!(missing.is_empty(), "not in the table of docs/atomics.md: {missing:?}");
    assert!(gone.is_empty(), "in the table, and not in the code: {gone:?}");
}

#[test]
fn declarations_are_told_from_uses() {
    let text = "
        use core::sync::atomic::{AtomicU64, Ordering};
        // word: AtomicU8,
        pub(crate) struct Hot(AtomicU64);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        type Table<'a> = &'a [AtomicU64; 4];
        pub(super) next: AtomicU64,
        lazy: Padded<AtomicU64>,
        ranges: [[AtomicU64; 2]; 4],
        lazy: Padded(AtomicU64::new(0)),
        fn words(&self) -> &[AtomicU64] {
        fn take(held: &AtomicBool) -> bool {
        let bytes = count * size_of::<AtomicU64>();
    ";
    let names: Vec<_> = names(text).collect();
    assert_eq!(names, ["Hot", "NEXT", "Table", "next", "lazy", "ranges", "words"]);
}
