//! Numbers in a file of TOML that people read: counts and bars.

use anyhow::{Context, Result};
use std::fs;
use toml_edit::{DocumentMut, Item, value};

/// A file with numbers. What is written keeps its comments and its order.
pub(crate) struct Bounds {
    path: &'static str,
    file: DocumentMut,
}

impl Bounds {
    pub(crate) fn read(path: &'static str) -> Result<Self> {
        let text = fs::read_to_string(path).context(path)?;
        Self::parse(path, &text)
    }

    pub(crate) fn parse(path: &'static str, text: &str) -> Result<Self> {
        Ok(Self { path, file: text.parse().context(path)? })
    }

    pub(crate) fn write(&self) -> Result<()> {
        fs::write(self.path, self.file.to_string()).context(self.path)
    }

    /// Returns the number to which some names lead.
    pub(crate) fn get(&self, names: &[&str]) -> Option<f64> {
        let item = names.iter().try_fold(self.file.as_item(), |item, name| item.get(name))?;
        item.as_float().or_else(|| Some(item.as_integer()? as f64))
    }

    /// Returns the names below those of `names`.
    pub(crate) fn names(&self, names: &[&str]) -> Vec<String> {
        let item = names.iter().try_fold(self.file.as_item(), |item, name| item.get(name));
        let table = item.and_then(Item::as_table_like);
        table.map_or(Vec::new(), |table| table.iter().map(|(name, _)| name.to_owned()).collect())
    }

    /// Sets the number to which some names lead.
    pub(crate) fn set(&mut self, names: &[&str], number: f64) {
        let item = names.iter().fold(self.file.as_item_mut(), |item, name| &mut item[name]);
        *item = value(number);
    }

    /// Lowers a number, or enters it if there is none. None is raised: `cargo xtask ratchet`.
    pub(crate) fn lower(&mut self, names: &[&str], number: f64) {
        if self.get(names).is_none_or(|known| number < known) {
            self.set(names, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fall_and_all_else_stays() {
        let text = "# Why\n\n\"a, b\" = { x = 2.0, y = 1 } # here\n";
        let mut bounds = Bounds::parse("", text).unwrap();
        assert_eq!([["a, b", "y"], ["a, b", "z"]].map(|names| bounds.get(&names)), [Some(1.0), None]);
        assert_eq!(bounds.names(&[]), ["a, b"]);
        bounds.lower(&["a, b", "x"], 1.5);
        bounds.lower(&["a, b", "y"], 1.5);
        bounds.lower(&["c", "x"], 9.0);
        let lowered = "# Why\n\n\"a, b\" = { x = 1.5, y = 1 } # here\nc = { x = 9.0 }\n";
        assert_eq!(bounds.file.to_string(), lowered);
        bounds.set(&["a, b", "y"], 1.5);
        assert_eq!(bounds.get(&["a, b", "y"]), Some(1.5));
    }
}
