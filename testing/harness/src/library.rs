//! Dynamic libraries that tests run programs with.
//!
//! Cargo builds no library for a package's tests that they can't link to. So `.ci/run` builds these
//! before all tests, with the features of a program; by hand the first test does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the dynamic library of this file name that `package` is, from the folder of this build.
/// Runs `cargo build` only if one of its sources is newer.
///
/// # Panics
/// When it can't be built.
pub fn dynamic_library(package: &str, name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let test = env::current_exe().expect("this program has a path");
    let folder = test.ancestors().nth(2).expect("tests lie in a folder of the build's");
    let library = folder.join(name);
    let _one = ONE_AT_A_TIME.lock();
    if !is_newest(&library) {
        build(package, folder);
    }
    library
}

/// Returns true if a library is newer than all that it was made of, which the file beside it lists.
fn is_newest(library: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let Some(built) = time(library) else { return false };
    let Ok(list) = fs::read_to_string(library.with_extension("d")) else { return false };
    let Some((_, sources)) = list.split_once(": ") else { return false };
    let settings = ["Cargo.toml", "Cargo.lock"].map(|name| Path::new(WORKSPACE).join(name));
    let is_older = |changed: Option<SystemTime>| changed.is_some_and(|changed| changed <= built);
    settings.iter().all(|path| is_older(time(path)))
        && sources.split_whitespace().all(|path| is_older(time(Path::new(path))))
}

fn build(package: &str, folder: &Path) {
    let target = folder.parent().expect("it lies in that of all builds");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", package]).current_dir(WORKSPACE);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.arg("--target-dir").arg(target).status();
    assert!(status.expect("cargo runs").success(), "{package} can't be built");
}
