//! One meaning a word: a word that names many things in a field may name one type of the products.
//!
//! Two crates that mean different things by one word send a reader to the wrong one. So a type of
//! such a name stands once; all others carry a second word (`BeaconSlot`, `ChunkState`).

use super::Violation;
use super::source::Package;
use regex_lite::Regex;
use std::collections::BTreeMap;

/// The words, as a file declares types of these names.
const DECLARED: &str =
    r"(?m)^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (Chunks?|Freed|Kept|Slots?|State|Runs?)\b";

pub(super) fn check(packages: &[Package], found: &mut Vec<Violation>) {
    let declared = Regex::new(DECLARED).expect("a pattern");
    let products = packages.iter().filter(|package| package.folder.starts_with("crates/"));
    let files = products.flat_map(|package| {
        package.files.iter().filter(|file| package.inside(file).starts_with("src/") && !file.is_test())
    });
    let mut places = BTreeMap::new();
    for file in files {
        for name in declared.captures_iter(&file.text).filter_map(|found| found.get(1)) {
            let first = *places.entry(name.as_str()).or_insert(&file.path);
            if *first != file.path {
                let name = name.as_str();
                let what = format!("`{name}` names a type in {first} already: give this one a second word");
                found.push(Violation::new("meanings", "crates", &file.path, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::super::source::File;
    use super::*;

    fn package(folder: &str, text: &str) -> Package {
        let path = format!("{folder}/src/lib.rs");
        let syntax = syn::parse_file(text).unwrap();
        let file = File { path, text: text.to_owned(), syntax, lines: Lines::of(text) };
        Package { folder: folder.to_owned(), files: vec![file] }
    }

    #[test]
    fn a_word_that_names_two_types_is_found() {
        let packages = [
            package("crates/one", "struct Slot;\nstruct Node;"),
            package("crates/two", "struct Node;\npub(crate) enum Slot {}\nenum ChunkState {}"),
            package("testing/three", "struct Slot;"),
        ];
        let mut found = Vec::new();
        check(&packages, &mut found);
        let places: Vec<_> = found.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(places, ["crates/two/src/lib.rs"]);
    }
}
