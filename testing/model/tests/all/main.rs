//! The area map against a naive model, and the rules of this repository.

mod architecture;
mod area_map;
mod atomics;
mod in_buffer;
mod layers;
mod map_api;
mod memory;
mod modules;
mod page_set;
mod scripts;
mod soundness;
mod steps;

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the checkout");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
