//! `cargo xtask api`: the public items of each product crate, as text that is checked in.

mod items;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::io;
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

/// Why the public API is not as it is written down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("cannot write {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("{}: {cause}", path.display())]
    Parse { path: PathBuf, cause: syn::Error },
    #[error("the public API has changed; if that is meant: cargo xtask api --bless")]
    Changed,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let folder = Path::new("docs/api");
    let crates = Path::new("crates");
    let read = |cause| Error::Read { path: crates.into(), cause };
    let mut changed = false;
    for entry in fs::read_dir(crates).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tree = tree::Tree::read(&path.join("src/lib.rs"))?;
        let lines = items::public(&name.replace('-', "_"), &tree);
        let file = folder.join(format!("{name}.txt"));
        if args.bless {
            let write = |cause| Error::Write { path: file.clone(), cause };
            fs::create_dir_all(folder).map_err(write)?;
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, text).map_err(write)?;
        } else {
            changed |= differs(&file, &lines)?;
        }
    }
    if changed { Err(Error::Changed) } else { Ok(()) }
}

/// Prints the lines that are only in the file or only in `lines`.
fn differs(file: &Path, lines: &BTreeSet<String>) -> Result<bool, Error> {
    let text = fs::read_to_string(file).map_err(|cause| Error::Read { path: file.into(), cause })?;
    let before: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    before.difference(lines).for_each(|line| println!("- {line}"));
    lines.difference(&before).for_each(|line| println!("+ {line}"));
    Ok(before != *lines)
}
