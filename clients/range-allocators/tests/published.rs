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

/// Its tests are files of their own, and three more files have a notice of ours before them.
#[test]
fn ax_memory_set_has_the_published_tests_and_signatures() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("ax-memory-set");
    let theirs = published("ax-memory-set-0.8.0");
    for file in ["tests.rs", "../tests/std.rs"] {
        assert!(source(&ours, file) == source(&theirs, file), "{file}");
        assert!(source(&ours, file).contains("#[test]"), "{file}");
    }
    for file in ["area.rs", "backend.rs", "lib.rs"] {
        let our = source(&ours, file).replace("mod areas;\n", "");
        let (notice, our) = our.split_once("\n\n").expect("a notice");
        assert!(notice.lines().all(|line| line.starts_with("// ")), "{file}: {notice}");
        assert!(our == source(&theirs, file), "{file}");
    }
    assert_eq!(functions(&source(&ours, "set.rs")), functions(&source(&theirs, "set.rs")));
}

/// Returns the public functions of a source: their documentation and signatures.
fn functions(text: &str) -> Vec<String> {
    let starts: Vec<_> = text.match_indices("\n    pub ").map(|(start, _)| start).collect();
    let function = |start: usize| {
        let lines = text[..start].lines().rev();
        let documentation: Vec<_> = lines.take_while(|line| line.trim().starts_with("///")).collect();
        let signature = text[start..].split(" {\n").next().expect("a body");
        format!("{documentation:#?} {signature}")
    };
    assert!(starts.len() > 20, "{starts:?}");
    starts.into_iter().map(function).collect()
}
