//! `cargo xtask api`: the public items of each product crate, as text that is checked in.

mod items;
mod tree;

use crate::cannot;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
    for entry in fs::read_dir(crates).with_context(|| cannot("read", crates))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tree = tree::Tree::read(&path.join("src/lib.rs"))?;
        let lines = items::public(&name.replace('-', "_"), &tree);
        let file = folder.join(format!("{name}.txt"));
        if args.bless {
            fs::create_dir_all(folder)?;
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, text).with_context(|| cannot("write", &file))?;
        } else {
            changed |= differs(&file, &lines)?;
        }
    }
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
