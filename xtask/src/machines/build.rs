//! What runs on the machine: test programs, and the preload library with its programs in C.

use crate::process;
use anyhow::{Context, Result};
use cargo_metadata::{Artifact, TargetKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates whose tests run.
const CRATES: [&str; 5] = ["linux", "stacks", "slots", "malloc", "preload"];
/// Those of them that need no compiler of C, and no loader of libraries.
const STATIC: [&str; 4] = ["linux", "stacks", "slots", "malloc"];
/// Flags of rustc: it links with its own linker and its own C library, and without debug information.
const WITHOUT_C: &str = "-Clinker=rust-lld -Clink-self-contained=yes -Cstrip=debuginfo";
const PROGRAMS: &str = "crates/vmalloc-preload/tests/programs";
/// The flags of the tests of the preload library.
const FLAGS: [&str; 7] = ["-O1", "-g", "-w", "-pthread", "-fno-builtin", "-ldl", "-o"];

/// A program of tests.
#[derive(Debug)]
pub(super) struct Test {
    /// Its crate and its file: `linux/space`; `linux/unit` has the tests inside the crate.
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// Builds the tests. Those of this machine as `cargo test --workspace` does, so that nothing is built twice after it; for
/// another target static ones. Returns them by name.
pub(super) fn tests(target: Option<&str>) -> Result<Vec<Test>> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-run"]);
    match target {
        None => cargo.arg("--workspace"),
        Some(target) => {
            cargo.args(["--target", target]).args(STATIC.map(|name| format!("-pvmalloc-{name}")));
            cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", WITHOUT_C)
        }
    };
    let mut tests: Vec<_> = process::artifacts(&mut cargo)?.into_iter().filter_map(test).collect();
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tests)
}

/// Builds the preload library and the programs that its tests run, in a folder. The tests find them there.
pub(super) fn preloaded(folder: &Path) -> Result<()> {
    let what = PROGRAMS;
    fs::create_dir_all(folder).context(what)?;
    let words = ["build", "--package", "vmalloc-preload", "--profile", "test"];
    let built = process::artifacts(process::cargo().args(words))?;
    let mut files = built.iter().flat_map(|artifact| &artifact.filenames);
    let library = files.find(|file| file.ends_with("libvmalloc_malloc.so"));
    fs::copy(library.context("cargo told of no such file")?, folder.join("libvmalloc_malloc.so"))
        .context(what)?;
    for entry in Path::new(PROGRAMS).read_dir().context(what)? {
        let source = entry.context(what)?.path();
        if source.extension().is_some_and(|kind| kind != "h") {
            compile(&source, folder)?;
        }
    }
    Ok(())
}

/// Compiles a program, or a library where there is no `main`.
fn compile(source: &Path, folder: &Path) -> Result<()> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let is_library = !fs::read_to_string(source)
        .with_context(|| format!("can't read {}", source.display()))?
        .contains("int main(");
    let mut compiler = Command::new(if name.ends_with(".cpp") { "c++" } else { "cc" });
    compiler.arg(source).args(FLAGS);
    match is_library {
        true => compiler.arg(folder.join(format!("{name}.so"))).args(["-fPIC", "-shared"]),
        false => compiler.arg(folder.join(&*name)),
    };
    process::finish(&mut compiler)
}

/// Returns the test that cargo has built, if it is one of the chosen crates.
fn test(built: Artifact) -> Option<Test> {
    let package = built.manifest_path.parent()?.file_name()?;
    let name = package.strip_prefix("vmalloc-").filter(|name| CRATES.contains(name))?;
    let file = match &built.target.kind[..] {
        [TargetKind::Test] => &built.target.name,
        [TargetKind::Lib, ..] if built.profile.test => "unit",
        _ => return None,
    };
    Some(Test { name: format!("{name}/{file}"), file: built.executable?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(package: &str, kind: &str, name: &str) -> Artifact {
        let text = format!(
            r#"{{"package_id": "x", "manifest_path": "/somewhere/crates/{package}/Cargo.toml",
                "target": {{"name": "{name}", "kind": ["{kind}"], "src_path": "/x"}},
                "profile": {{"opt_level": "0", "debug_assertions": true, "overflow_checks": true, "test": true}},
                "features": [], "filenames": [], "executable": "/somewhere/target/debug/deps/name-1234", "fresh": true}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn tests_are_named_by_their_crate_and_their_file() {
        let name = |built| test(built).map(|test| test.name);
        assert_eq!(name(built("vmalloc-linux", "test", "space")).as_deref(), Some("linux/space"));
        assert_eq!(name(built("vmalloc-slots", "lib", "vmalloc_slots")).as_deref(), Some("slots/unit"));
        assert_eq!(name(built("vmalloc-slots", "example", "wasm_memory")), None);
        assert_eq!(name(built("vmalloc-c", "test", "c")), None);
    }
}
