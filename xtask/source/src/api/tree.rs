//! The modules of a crate.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use syn::Item;

/// The items of every module, by its path in the crate.
pub(super) struct Tree(BTreeMap<Vec<String>, Vec<Item>>);

impl Tree {
    /// Reads the crate whose root is the file `path`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut tree = Self(BTreeMap::new());
        tree.read_file(path, path.parent().unwrap_or(Path::new(".")), Vec::new())?;
        Ok(tree)
    }

    /// Returns the items of the module at `path`.
    pub(super) fn items(&self, path: &[String]) -> Option<&[Item]> {
        self.0.get(path).map(Vec::as_slice)
    }

    /// Returns every item of the crate.
    pub(super) fn all(&self) -> impl Iterator<Item = &Item> {
        self.0.values().flatten()
    }

    /// Reads a file, whose modules lie in `folder`.
    fn read_file(&mut self, path: &Path, folder: &Path, module: Vec<String>) -> Result<()> {
        let text = crate::read(path)?;
        let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        self.read_items(file.items, folder, module)
    }

    fn read_items(&mut self, items: Vec<Item>, folder: &Path, module: Vec<String>) -> Result<()> {
        for item in &items {
            let Item::Mod(inner) = item else { continue };
            if is_conditional(&inner.attrs) {
                continue;
            }
            let name = inner.ident.to_string();
            let path = [&module[..], std::slice::from_ref(&name)].concat();
            let below = folder.join(&name);
            match &inner.content {
                Some((_, items)) => self.read_items(items.clone(), &below, path)?,
                None => {
                    let beside = folder.join(format!("{name}.rs"));
                    let file = if beside.exists() { beside } else { below.join("mod.rs") };
                    self.read_file(&file, &below, path)?;
                }
            }
        }
        self.0.insert(module, items);
        Ok(())
    }
}

/// Returns true for items of tests and of special builds, and for those hidden from the documentation.
pub(super) fn is_conditional(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote::ToTokens::to_token_stream(&attribute.meta).to_string();
        let positive = ["test", "shuttle", "loom"].map(|name| text.starts_with(&format!("cfg ({name}")));
        positive.contains(&true) || text.starts_with("doc (hidden")
    })
}
