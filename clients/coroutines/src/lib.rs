//! The published sources of libraries of coroutines, with stacks of `vmalloc-stacks`: made from the registry when a test or the bench asks.

mod edits;

use published::{Manifest, copy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the folder in which copies are made and built, below the target directory.
pub fn workshop() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HERE).join("target"), PathBuf::from);
    target.join("coroutines")
}

/// Returns cargo, to be run in `folder`.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", workshop().join("target"));
    cargo
}

/// Makes a copy of a published package, `name`-`version`, and returns its folder.
///
/// The sections of its manifest that hold one of `left_out` are left out, and `added` is added.
pub fn prepare(name: &str, version: &str, left_out: &[&str], added: &str) -> PathBuf {
    let folder = workshop().join(name);
    let _ = fs::remove_dir_all(&folder);
    let source = published::folder(Path::new(HERE), &format!("{name}-{version}")).expect("a dependency");
    copy(&source, &folder).expect("the source is copied");
    let _ = fs::remove_file(folder.join("Cargo.lock"));
    Manifest::read(&folder).without(left_out).with(&format!("{added}\n[workspace]\n")).write();
    folder
}

/// Returns the dependency of an edited package: our stacks.
fn our_stacks() -> String {
    format!(
        "[dependencies.vmalloc-stacks]\npath = {:?}\n",
        Path::new(HERE).join("../../crates/vmalloc-stacks")
    )
}

/// Returns a section that lets everything use the copy of `generator`.
///
/// `loom`, which models of ours need and no build of a client, depends on `generator`. Cargo would see a circle, so an empty `loom` takes its place.
pub fn our_generator() -> String {
    let loom = workshop().join("loom");
    fs::create_dir_all(loom.join("src")).expect("the folder is made");
    let manifest = "[package]\nname = \"loom\"\nversion = \"0.7.3\"\nedition = \"2021\"\n[features]\ncheckpoint = []\nfutures = []\n";
    fs::write(loom.join("Cargo.toml"), manifest).expect("the manifest is written");
    fs::write(loom.join("src/lib.rs"), "").expect("the source is written");
    format!(
        "[patch.crates-io]\ngenerator = {{ path = {:?} }}\nloom = {{ path = {loom:?} }}\n",
        workshop().join("generator")
    )
}

/// Builds `pair/` with the published `generator`, or with the copy on our stacks, and returns the program.
pub fn build_pair(is_ours: bool) -> PathBuf {
    let folder = workshop().join(if is_ours { "pair-ours" } else { "pair-original" });
    copy(&Path::new(HERE).join("pair"), &folder).expect("the source is copied");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    let patch = if is_ours { our_generator() } else { String::new() };
    fs::write(folder.join("Cargo.toml"), manifest + &patch).expect("the manifest is written");
    let target = folder.join("target");
    let mut build = cargo(&folder);
    build.args(["build", "--release", "--quiet"]).env("CARGO_TARGET_DIR", &target);
    assert!(build.status().expect("cargo runs").success(), "`pair` is not built");
    target.join("release/pair")
}

/// Makes the copy of `generator` on our stacks.
pub fn prepare_generator() -> PathBuf {
    let folder = prepare("generator", "0.8.12", &["bench", "profile"], &our_stacks());
    edits::generator(&folder);
    folder
}

/// Makes the copy of `corosensei` whose own stacks are ours.
pub fn prepare_corosensei() -> PathBuf {
    let folder = prepare("corosensei", "0.3.4", &["bench", "criterion", "profile"], &our_stacks());
    edits::corosensei(&folder);
    folder
}
