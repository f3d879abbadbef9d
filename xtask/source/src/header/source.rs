//! The source of the C library: which file declares what.

use super::CRATE;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Fields, Item, Visibility};

/// The files in the order of the header, and the titles of their families.
pub(super) const FAMILIES: [(&str, &str); 27] = [
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

/// One file of the source.
pub(super) struct Family {
    pub(super) file: &'static str,
    pub(super) items: BTreeSet<String>,
    /// The structs whose size is in front, with the type of each field.
    pub(super) structs: BTreeMap<String, Vec<syn::Type>>,
}

pub(super) fn path(file: &str) -> PathBuf {
    Path::new(CRATE).join("src").join(file).with_extension("rs")
}

pub(super) fn families() -> Result<Vec<Family>> {
    FAMILIES.iter().map(|(file, _)| read(file)).collect()
}

fn read(file: &'static str) -> Result<Family> {
    let path = path(file);
    let text = crate::read(&path)?;
    let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
    let mut family = Family { file, items: BTreeSet::new(), structs: BTreeMap::new() };
    for item in &syntax.items {
        let (name, visibility) = match item {
            Item::Const(item) => (&item.ident, &item.vis),
            Item::Fn(item) => (&item.sig.ident, &item.vis),
            Item::Struct(item) => (&item.ident, &item.vis),
            Item::Type(item) => (&item.ident, &item.vis),
            _ => continue,
        };
        if matches!(visibility, Visibility::Public(_)) {
            family.items.insert(name.to_string());
        }
        if let Item::Struct(item) = item
            && let Fields::Named(fields) = &item.fields
            && fields.named.first().is_some_and(|it| it.ident.as_ref().is_some_and(|it| it == "size"))
        {
            let types = fields.named.iter().map(|field| field.ty.clone()).collect();
            family.structs.insert(name.to_string(), types);
        }
    }
    Ok(family)
}
