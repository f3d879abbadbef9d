//! The published sources of libraries of coroutines, with stacks of `vmalloc-stacks`: made from the registry when a test or the bench asks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the folder in which copies are made and built, below the target directory.
pub fn workshop() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HERE).join("target"), PathBuf::from);
    target.join("coroutines")
}

/// Returns where cargo has put the published source of a package, as `corosensei-0.3.4`.
fn published(package: &str) -> PathBuf {
    let output = cargo(Path::new(HERE))
        .args(["metadata", "--format-version=1", "--locked"])
        .stderr(Stdio::inherit())
        .output();
    let text = String::from_utf8(output.expect("cargo runs").stdout).expect("cargo writes text");
    let paths = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let manifest = paths
        .filter(|path| path.contains("/registry/src/"))
        .find(|path| path.contains(&format!("/{package}/")));
    Path::new(manifest.expect("the package is a dependency"))
        .parent()
        .expect("a file is in a folder")
        .to_owned()
}

/// Returns cargo, to be run in `folder`.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", workshop().join("target"));
    cargo
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => fs::write(to, fs::read(entry.path())?)?,
        }
    }
    Ok(())
}

/// Returns a manifest without the sections whose heading one of `words` is in.
fn without(manifest: &str, words: &[&str]) -> String {
    let mut is_kept = true;
    let mut kept = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_kept = !words.iter().any(|word| line.contains(word));
        }
        if is_kept {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// Makes a copy of a published package, `name`-`version`, with our patch for it where there is one, and returns its folder.
///
/// The sections of its manifest that hold one of `left_out` are left out, and `added` is added.
pub fn prepare(name: &str, version: &str, left_out: &[&str], added: &str) -> PathBuf {
    let folder = workshop().join(name);
    let _ = fs::remove_dir_all(&folder);
    copy(&published(&format!("{name}-{version}")), &folder).expect("the source is copied");
    let _ = fs::remove_file(folder.join("Cargo.lock"));
    let manifest = folder.join("Cargo.toml");
    let text = without(&fs::read_to_string(&manifest).expect("a manifest"), left_out);
    fs::write(manifest, format!("{text}\n{added}\n[workspace]\n")).expect("the manifest is written");
    let patch = Path::new(HERE).join("patches").join(format!("{name}.patch"));
    if patch.exists() {
        let patch = fs::File::open(patch).expect("the patch is open");
        let status =
            Command::new("patch").arg("-p1").arg("--quiet").current_dir(&folder).stdin(patch).status();
        assert!(status.expect("patch(1) runs").success(), "the patch does not apply");
    }
    folder
}

/// Returns the dependency of a patched package: our stacks.
pub fn our_stacks() -> String {
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
    prepare("generator", "0.8.12", &["bench", "profile"], &our_stacks())
}
