//! Tests and documentation of the drop-ins are those of the published crates, unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns where cargo has put the published source of a package.
fn published(package: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--locked"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let paths = text.split("\"manifest_path\":\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let manifest = paths
        .filter(|path| path.contains("/registry/src/"))
        .find(|path| path.contains(&format!("/{package}/")));
    Path::new(manifest.expect("the original is a dependency")).parent().unwrap().to_owned()
}

fn source(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join("src").join(file)).unwrap()
}

/// Returns the part of a source with the tests.
fn tests(text: &str) -> &str {
    &text[text.find("#[cfg(test)]\nmod tests").expect("a module of tests")..]
}

/// Returns the comments that are documentation with examples.
fn examples(text: &str) -> Vec<&str> {
    let code = &text[..text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len())];
    code.lines().map(str::trim).filter(|line| line.starts_with("//!") || line.starts_with("///")).collect()
}

#[test]
fn tests_and_examples_are_the_published_ones() {
    let files = [
        ("free-list", "free-list-0.3.4", &["lib.rs", "page_list.rs", "page_range.rs", "page_layout.rs"][..]),
        ("range-alloc", "range-alloc-0.1.5", &["lib.rs"][..]),
        ("vm-allocator", "vm-allocator-0.1.4", &["lib.rs", "address_allocator.rs", "id_allocator.rs"][..]),
    ];
    for (ours, theirs, files) in files {
        let (ours, theirs) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(ours), published(theirs));
        for file in files {
            let (our, their) = (source(&ours, file), source(&theirs, file));
            if their.contains("#[cfg(test)]\nmod tests") {
                assert!(tests(&our) == tests(&their), "the tests of {file} of {theirs:?}");
            }
            let (our, their) = (examples(&our), examples(&their));
            let missing: Vec<_> = their.iter().filter(|line| !our.contains(line)).collect();
            assert!(
                missing.iter().all(|line| !line.contains("assert") && !line.contains("```")),
                "{file} of {theirs:?}: {missing:?}"
            );
        }
    }
}
