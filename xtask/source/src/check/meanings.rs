//! One meaning a word: a word that names many things in a field may name one type of the products.
//!
//! Two crates that mean different things by one word send a reader to the wrong one. So a type of
//! such a name stands once; all others carry a second word (`BeaconSlot`, `ChunkState`).

use super::Violation;
use super::source::{File, Package};
use std::collections::BTreeMap;

/// The words, as types would have them.
const WORDS: [&str; 9] = ["Chunk", "Chunks", "Freed", "Kept", "Slot", "Slots", "State", "Run", "Runs"];

pub(super) fn check(packages: &[Package], found: &mut Vec<Violation>) {
    let products = packages.iter().filter(|package| package.folder.starts_with("crates/"));
    let of_package = |package: &'_ Package| {
        let files = package.files.iter().filter(|file| package.inside(file).starts_with("src/"));
        files.filter(|file| !file.is_test()).flat_map(types).collect::<Vec<_>>()
    };
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in products.flat_map(of_package) {
        if WORDS.contains(&name.as_str()) {
            places.entry(name).or_default().push(place);
        }
    }
    for (name, places) in places {
        for place in &places[1..] {
            found.push(Violation {
                rule: "meanings",
                package: "crates".into(),
                place: place.clone(),
                what: format!("`{name}` names a type in {} already: give this one a second word", places[0]),
            });
        }
    }
}

/// Returns the types that a file declares, with their places.
fn types(file: &File) -> Vec<(String, String)> {
    let name = |item: &syn::Item| match item {
        syn::Item::Struct(it) => Some(it.ident.to_string()),
        syn::Item::Enum(it) => Some(it.ident.to_string()),
        syn::Item::Trait(it) => Some(it.ident.to_string()),
        syn::Item::Type(it) => Some(it.ident.to_string()),
        _ => None,
    };
    file.syntax.items.iter().filter_map(name).map(|name| (name, file.path.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::lines::Lines;

    fn package(folder: &str, text: &str) -> Package {
        let path = format!("{folder}/src/lib.rs");
        let syntax = syn::parse_file(text).unwrap();
        let file = File { path, text: text.to_owned(), syntax, lines: Lines::of(text) };
        Package { folder: folder.to_owned(), files: vec![file] }
    }

    #[test]
    fn a_word_that_names_two_types_is_found() {
        let packages = [
            package("crates/one", "struct Slot; struct Node;"),
            package("crates/two", "struct Node; enum Slot {} enum ChunkState {}"),
            package("testing/three", "struct Slot;"),
        ];
        let mut found = Vec::new();
        check(&packages, &mut found);
        let places: Vec<_> = found.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(places, ["crates/two/src/lib.rs"]);
    }
}
