//! `cargo xtask api`: the public items of each product crate, as text that is checked in.

mod items;
mod tree;

use crate::cannot;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Compare the public API of the product crates with docs/api
///
/// Each line is one public item with its signature, read from the source: what macros make is not
/// seen. A change of the API is a change of these files, to be looked at in a review.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write docs/api instead.
    #[arg(long)]
    bless: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = Path::new("docs/api");
    let crates = Path::new("crates");
    let mut changed = false;
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(crates).with_context(|| cannot("read", crates))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tree = tree::Tree::read(&path.join("src/lib.rs"))?;
        let lines = items::public(&name.replace('-', "_"), &tree);
        let file = folder.join(format!("{name}.txt"));
        files.insert(file.clone());
        if args.bless {
            fs::create_dir_all(folder)?;
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, text).with_context(|| cannot("write", &file))?;
        } else {
            changed |= differs(&file, &lines)?;
        }
    }
    let strays = strays(folder, &files)?;
    ensure!(strays.is_empty(), "of no crate: {}; delete them", strays.join(", "));
    ensure!(!changed, "the public API has changed; if that is meant: cargo xtask api --bless");
    Ok(())
}

/// Prints the lines that are only in the file or only in `lines`.
fn differs(file: &Path, lines: &BTreeSet<String>) -> Result<bool> {
    let text = crate::read(file)?;
    let before: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    before.difference(lines).for_each(|line| println!("- {line}"));
    lines.difference(&before).for_each(|line| println!("+ {line}"));
    Ok(before != *lines)
}

/// Returns the files of `folder` that are not among `files`: lists of crates that are gone.
fn strays(folder: &Path, files: &BTreeSet<PathBuf>) -> Result<Vec<String>> {
    let mut strays = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| cannot("read", folder))? {
        let path = entry?.path();
        if !files.contains(&path) {
            strays.push(path.display().to_string());
        }
    }
    strays.sort();
    Ok(strays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_crate_that_is_gone_is_found() {
        let folder = std::env::temp_dir().join(format!("vmalloc-api-lists-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [kept, gone] = ["kept.txt", "gone.txt"].map(|name| folder.join(name));
        [&kept, &gone].iter().for_each(|file| fs::write(file, "").unwrap());
        let found = strays(&folder, &BTreeSet::from([kept]));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), [gone.display().to_string()]);
    }
}
