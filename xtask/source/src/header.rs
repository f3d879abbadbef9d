//! `cargo xtask header`: the header of the C library, made of its source and checked in.

mod abi;
mod blocks;
mod init;
mod source;

use crate::cannot;
use anyhow::{Context, Result, anyhow, bail};
use blocks::Block;
use source::{FAMILIES, Family};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// The crate of the C library.
pub(crate) const CRATE: &str = "crates/vmalloc-c";

/// Compare include/vmalloc.h with the source of the C library
///
/// The header is written by cbindgen, and then ordered by family. A change of the source is a change of the header,
/// to be looked at in a review. `--bless-abi` notes the declarations as those that later headers have to keep.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the header instead.
    #[arg(long)]
    bless: bool,
    /// Write the declarations too, and a dump of abidw where it is installed.
    #[arg(long)]
    bless_abi: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let text = make()?;
    let path = PathBuf::from(CRATE).join("include/vmalloc.h");
    if args.bless || args.bless_abi {
        write(path, &text)?;
        return if args.bless_abi { abi::write(&text) } else { Ok(()) };
    }
    let before = crate::read(&path)?;
    if before == text {
        return Ok(());
    }
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), text.lines().collect());
    old.iter().filter(|line| !new.contains(line)).for_each(|line| println!("- {line}"));
    new.iter().filter(|line| !old.contains(line)).for_each(|line| println!("+ {line}"));
    bail!("vmalloc.h has changed; if that is meant: cargo xtask header --bless")
}

pub(crate) fn write(path: PathBuf, text: &str) -> Result<()> {
    fs::write(&path, text).with_context(|| cannot("write", &path))
}

/// Returns the whole header.
fn make() -> Result<String> {
    let families = source::families()?;
    let mut blocks: BTreeMap<&'static str, Vec<Block>> = BTreeMap::new();
    let mut opaque = Vec::new();
    for block in blocks::of(&bindings()?) {
        match home(&families, &block.name) {
            _ if block.is_opaque() => opaque.push(block),
            Some(file) => blocks.entry(file).or_default().push(block),
            None => bail!("{} is in no file of the list in xtask/source/src/header/source.rs", block.name),
        }
    }
    let top = PathBuf::from(CRATE).join("header/top.h");
    let top = crate::read(&top)?;
    let mut text = format!("{top}\n#ifndef VMALLOC_H\n#define VMALLOC_H\n\n{}", opening());
    for block in &opaque {
        let _ = write!(text, "\n{}\n", block.text());
    }
    for (file, title) in FAMILIES {
        let _ = write!(text, "\n/* ---- {title} ---- */\n");
        for block in blocks.remove(file).unwrap_or_default() {
            let _ = write!(text, "\n{}\n", block.text());
            if let Some(fields) = families.iter().find_map(|it| it.structs.get(&block.name)) {
                text += &format!("\n{}", init::of(&block.name, fields));
            }
        }
    }
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* VMALLOC_H */\n";
    Ok(text)
}

fn home(families: &[Family], name: &str) -> Option<&'static str> {
    families.iter().find(|family| family.items.contains(name)).map(|family| family.file)
}

/// Returns includes, version and the guard for C++.
fn opening() -> String {
    let parts: Vec<u32> =
        env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0)).collect();
    let [major, minor, patch] = parts[..] else { return String::new() };
    format!(
        "#include <stddef.h>\n#include <stdint.h>\n\n\
         #define VMALLOC_VERSION_MAJOR {major}\n#define VMALLOC_VERSION_MINOR {minor}\n#define VMALLOC_VERSION_PATCH {patch}\n\
         /* As vmalloc_version() returns it. */\n\
         #define VMALLOC_VERSION \\\n    (VMALLOC_VERSION_MAJOR * 1000000u + VMALLOC_VERSION_MINOR * 1000u + VMALLOC_VERSION_PATCH)\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n"
    )
}

/// Returns the declarations as cbindgen writes them.
fn bindings() -> Result<String> {
    let config = cbindgen::Config::from_file(PathBuf::from(CRATE).join("cbindgen.toml"));
    let mut builder =
        cbindgen::Builder::new().with_config(config.map_err(|error| anyhow!("cbindgen: {error}"))?);
    for (file, _) in FAMILIES {
        builder = builder.with_src(source::path(file));
    }
    let bindings = builder.generate().context("cbindgen")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
