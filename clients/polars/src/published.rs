//! A copy of the published polars-core, whose unit tests have our global allocator.
//!
//! Nothing of polars lies in this folder. The copy is that of the version in the lock file, made in the target directory, and the end of its
//! `lib.rs` is [`ADDED`].

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The package, and its version.
const PACKAGE: (&str, &str) = ("polars-core", "0.55.2");

/// What the tests get: our allocator for blocks of all sizes, and two tests that it is used.
const ADDED: &str = include_str!("added.rs");

/// Makes the copy, and returns its folder.
pub fn prepare() -> PathBuf {
    let folder = target().join("polars").join(PACKAGE.0);
    let _ = fs::remove_dir_all(&folder);
    copy(&published(), &folder).expect("the source is copied");
    // One lock file for both, so that cargo builds what lies below once.
    fs::copy(Path::new(HERE).join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file is copied");
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(manifest, adapted(&text)).expect("the manifest is written");
    let root = folder.join("src/lib.rs");
    let text = fs::read_to_string(&root).expect("a source");
    fs::write(root, text + ADDED).expect("the source is written");
    folder
}

/// Returns cargo, to be run in `folder`, with this client's target directory.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", target());
    cargo
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HERE).join("target"), PathBuf::from)
}

/// Returns the manifest with our allocator, and with this client's profile. What only tests of features need that are off is left out, for
/// it would have all be built once more.
fn adapted(manifest: &str) -> String {
    let ours = fs::read_to_string(Path::new(HERE).join("Cargo.toml")).expect("a manifest");
    let profile = ours.find("[profile.release]").expect("a profile");
    let allocator = Path::new(HERE).join("../../crates/vmalloc-malloc");
    let mut is_kept = true;
    let kept = |line: &&str| {
        if line.starts_with('[') {
            is_kept = !line.contains("dev-dependencies") && !line.contains("profile");
        }
        is_kept
    };
    let lines: Vec<_> = manifest.lines().filter(kept).collect();
    format!(
        "{}\n[target.'cfg(unix)'.dependencies.vmalloc-malloc]\npath = {allocator:?}\n\n[workspace]\n\n{}",
        lines.join("\n"),
        &ours[profile..]
    )
}

/// Returns where cargo has unpacked the package.
fn published() -> PathBuf {
    let output = cargo(Path::new(HERE)).args(["metadata", "--format-version=1", "--locked"]).output();
    let text = String::from_utf8(output.expect("cargo runs").stdout).expect("cargo writes text");
    let end = format!("{}-{}/Cargo.toml", PACKAGE.0, PACKAGE.1);
    let mut paths = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let manifest = paths.find(|path| path.ends_with(&end)).expect("the package is a dependency");
    Path::new(manifest).parent().expect("a file is in a folder").to_owned()
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
