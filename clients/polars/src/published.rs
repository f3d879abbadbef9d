//! A copy of the published polars-core, whose unit tests have our global allocator.
//!
//! Nothing of polars lies in this folder. The copy is that of the version in the lock file, made in the target directory, and the end of its
//! `lib.rs` is [`ADDED`].

use published::{Manifest, Source, copy, folder};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The package, and its version.
const PACKAGE: &str = "polars-core-0.55.2";

/// What the tests get: our allocator for blocks of all sizes, and two tests that it is used.
const ADDED: &str = include_str!("added.rs");

/// Makes the copy, and returns its folder.
pub fn prepare() -> PathBuf {
    let copied = target().join("polars/polars-core");
    let _ = fs::remove_dir_all(&copied);
    let published = folder(Path::new(HERE), PACKAGE).expect("the package is a dependency");
    copy(&published, &copied).expect("the source is copied");
    // One lock file for both, so that cargo builds what lies below once.
    fs::copy(Path::new(HERE).join("Cargo.lock"), copied.join("Cargo.lock")).expect("the lock file is copied");
    adapted(Manifest::read(&copied)).write();
    Source::edit(&copied.join("src/lib.rs"), |source| source.append(ADDED));
    copied
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
fn adapted(manifest: Manifest) -> Manifest {
    let ours = fs::read_to_string(Path::new(HERE).join("Cargo.toml")).expect("a manifest");
    let profile = ours.find("[profile.release]").expect("a profile");
    let allocator = Path::new(HERE).join("../../crates/vmalloc-malloc");
    let dependency = format!("[target.'cfg(unix)'.dependencies.vmalloc-malloc]\npath = {allocator:?}\n");
    let added = format!("{dependency}\n[workspace]\n\n{}", &ours[profile..]);
    manifest.without(&["dev-dependencies", "profile"]).with(&added)
}
