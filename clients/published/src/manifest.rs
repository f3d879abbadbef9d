//! Edits of a published manifest.

use std::fs;
use std::path::{Path, PathBuf};

/// A manifest that is edited by the headings of its sections.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    text: String,
}

impl Manifest {
    /// Reads the manifest of the package in a folder.
    ///
    /// # Panics
    /// If it can't be read.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let path = folder.join("Cargo.toml");
        let text = fs::read_to_string(&path).unwrap_or_else(|cause| panic!("can't read {path:?}: {cause}"));
        Self { path, text }
    }

    /// Removes the sections whose heading one of `words` is in.
    #[must_use]
    pub fn without(mut self, words: &[&str]) -> Self {
        let mut is_kept = true;
        self.text = self
            .text
            .split_inclusive('\n')
            .filter(|line| {
                if line.starts_with('[') {
                    is_kept = !words.iter().any(|word| line.contains(word));
                }
                is_kept
            })
            .collect();
        self
    }

    /// Sets a key of the section with a heading. A key that the section has gets another value.
    ///
    /// # Panics
    /// If there is no such section.
    #[must_use]
    pub fn set(mut self, heading: &str, key: &str, value: &str) -> Self {
        let start = self.text.find(&format!("{heading}\n"));
        let start = start.unwrap_or_else(|| panic!("{:?} has no section {heading}", self.path));
        let start = start + heading.len() + 1;
        let end = self.text[start..].find("\n[").map_or(self.text.len(), |end| start + end + 1);
        let is_old = |line: &&str| line.split('=').next().is_some_and(|name| name.trim() == key);
        let rest: String = self.text[start..end].split_inclusive('\n').filter(|line| !is_old(line)).collect();
        self.text.replace_range(start..end, &format!("{key} = {value}\n{rest}"));
        self
    }

    /// Adds sections at the end.
    #[must_use]
    pub fn with(mut self, sections: &str) -> Self {
        self.text += "\n";
        self.text += sections;
        self
    }

    /// Writes the manifest.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(self) {
        fs::write(&self.path, self.text)
            .unwrap_or_else(|cause| panic!("can't write {:?}: {cause}", self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_left_out_changed_and_added() {
        let text =
            "[package]\nname = \"a\"\n\n[lib]\ntest = false\npath = \"b\"\n\n[profile.dev]\nlto = true\n";
        let manifest = Manifest { path: PathBuf::new(), text: text.into() };
        let text = manifest.without(&["profile"]).set("[lib]", "test", "true").with("[workspace]\n").text;
        assert_eq!(text, "[package]\nname = \"a\"\n\n[lib]\ntest = true\npath = \"b\"\n\n\n[workspace]\n");
    }
}
