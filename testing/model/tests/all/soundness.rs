//! Every safe public function of the product has its reason in `docs/soundness.md`, and every
//! unsafe one is named there as such.

use crate::{files, root};
use std::fs;

/// Where values are built or page numbers are computed: the page has a reason for each whole.
const GROUPS: [&str; 10] = [
    "vmalloc-map/src",
    "vmalloc/src/platform/geometry.rs",
    "vmalloc/src/space/request.rs",
    "vmalloc/src/space/options.rs",
    "vmalloc-subspaces/src/options.rs",
    "vmalloc-subspaces/src/placement.rs",
    "vmalloc-short/src/options.rs",
    "vmalloc-slots/src/options.rs",
    "vmalloc-linux/src/options.rs",
    "vmalloc-stacks/src/options.rs",
];

/// Returns the public functions of a file, with whether they are unsafe.
fn public_functions(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.lines().filter_map(|line| {
        let line = line.trim_start().strip_prefix("pub ")?;
        let (before, after) = line.split_once("fn ")?;
        let modifiers: Vec<&str> = before.split_whitespace().collect();
        let is_function = modifiers.iter().all(|word| ["const", "unsafe", "extern", "\"C\""].contains(word));
        let name = after.split(['(', '<']).next()?;
        // A macro makes setters, whose names stand where it is used.
        (is_function && !name.starts_with('$')).then_some((name, modifiers.contains(&"unsafe")))
    })
}

#[test]
fn every_public_function_is_in_the_page_on_soundness() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/soundness.md")).expect("the page is there");
    let (_, unsafe_part) = page.split_once("What ends something").expect("the list of unsafe functions");
    let products = [
        "vmalloc-map",
        "vmalloc",
        "vmalloc-subspaces",
        "vmalloc-short",
        "vmalloc-slots",
        "vmalloc-linux",
        "vmalloc-stacks",
        "vmalloc-malloc",
        "vmalloc-tables",
    ];
    let all = products.iter().flat_map(|name| files(&root.join("crates").join(name).join("src")));
    let (mut count, mut missing) = (0, Vec::new());
    for file in all {
        let path = file.strip_prefix(root.join("crates")).expect("a file of the crates");
        let in_group = GROUPS.iter().any(|group| path.starts_with(group));
        let text = fs::read_to_string(&file).expect("a source file");
        for (name, is_unsafe) in public_functions(&text) {
            count += 1;
            let is_named =
                |part: &str| part.contains(&format!("`{name}`")) || part.contains(&format!("::{name}`"));
            let is_known = if is_unsafe { is_named(unsafe_part) } else { in_group || is_named(&page) };
            if !is_known {
                missing.push(format!("{name} in {}", path.display()));
            }
        }
    }
    assert!(count > 100, "only {count} functions were found");
    assert!(missing.is_empty(), "docs/soundness.md does not name: {missing:#?}");
}
