//! `cargo xtask header`: the header of the C library, made of its source and checked in.

mod abi;
mod declaration;

use crate::cannot;
use anyhow::{Context, Result, anyhow, bail};
use cbindgen::{Builder, Config};
use declaration::Declaration;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The crate of the C library.
pub(crate) const CRATE: &str = "crates/vmalloc-c";

/// The files in the order of the header, and the titles of their families.
const FAMILIES: [(&str, &str); 27] = [
    ("code", "Families and codes of errors, with the errno of each"),
    ("error", "The detail of an error"),
    ("version", "The version"),
    ("options", "Options of a space, and requests"),
    ("space", "Spaces"),
    ("areas", "Areas: memory and addresses"),
    ("resize", "Another size for an area"),
    ("find", "Areas found by any address inside"),
    ("walk", "Areas in address order"),
    ("stats", "Counts"),
    ("purge", "Freed areas given back"),
    ("memory", "Memory read without faults"),
    ("commit", "Memory at chosen addresses inside an area"),
    ("exec", "Memory for code, and protection"),
    ("frames", "Frames: pages that can be mapped at several addresses"),
    ("mapping", "Mappings of frames"),
    ("raw_map", "Mappings by numbers of frames, and shared memory"),
    ("frame_pages", "Frames in reserved areas, page by page"),
    ("percpu", "Congruent areas: at the same distances from one base"),
    ("notifier", "Notifiers"),
    ("root", "Roots and sub-spaces"),
    ("slots", "Slots"),
    ("stacks", "Stacks"),
    ("growable", "Stacks that grow"),
    ("watch", "Reports on traps"),
    ("map", "The address map alone"),
    ("map_edit", "The address map: areas cut, grown and shrunk"),
];

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
    let (mut handles, mut families) = (String::new(), FAMILIES.map(|_| String::new()));
    let sources = FAMILIES.iter().map(|(file, _)| crate::read(source(file))).collect::<Result<Vec<_>>>()?;
    for declaration in declarations()? {
        let name = declaration.name();
        let declares = |text: &String| text.lines().any(|line| item(line) == Some(&*name));
        let family = sources
            .iter()
            .position(declares)
            .with_context(|| format!("no file of the header declares {name}"))?;
        let text = if declaration.is_handle() { &mut handles } else { &mut families[family] };
        let _ = write!(text, "\n{}\n{}", declaration.text(), declaration.initializer());
    }
    let families = FAMILIES.iter().zip(families);
    let families = families.map(|((_, title), text)| format!("\n/* ---- {title} ---- */\n{text}"));
    let top = crate::read(Path::new(CRATE).join("header/top.h"))?;
    Ok(format!(
        "{top}\n#ifndef VMALLOC_H\n#define VMALLOC_H\n\n{}{handles}{}\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif /* VMALLOC_H */\n",
        opening(),
        families.collect::<String>()
    ))
}

fn source(file: &str) -> PathBuf {
    Path::new(CRATE).join("src").join(file).with_extension("rs")
}

/// Returns the name of the public item that a line of Rust declares.
fn item(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
    words.find(|word| !["", "const", "unsafe", "extern", "C", "fn", "struct", "type"].contains(word))
}

/// Returns the declarations as cbindgen writes them.
fn declarations() -> Result<Vec<Declaration>> {
    let config = Config::from_file(Path::new(CRATE).join("cbindgen.toml"));
    let builder = Builder::new().with_config(config.map_err(|error| anyhow!("cbindgen: {error}"))?);
    let builder = FAMILIES.iter().fold(builder, |builder, (file, _)| builder.with_src(source(file)));
    let mut text = Vec::new();
    builder.generate().context("cbindgen")?.write(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.split("\n\n").map(str::trim).filter(|text| !text.is_empty()).map(Declaration::of).collect())
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
