//! Edits of a published source file.

use crate::find::{self, Found};
use std::fs;
use std::ops::Range;
use std::path::Path;
use syn::spanned::Spanned;

/// A Rust source that is edited by the names of its items.
///
/// A path is written as in Rust, without generics: `free`, `tests::empty`, `FreeList::allocate`, `impl Drop for Stack`,
/// `impl Drop for Stack::drop`, `extern crate core`, and `cfg_select!` for a macro that stands as an item. Each edit panics unless it finds
/// exactly what it names.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the file, for messages.
    name: String,
    text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Panics
    /// If it can't be read.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|cause| panic!("can't read {path:?}: {cause}"));
        Self { name: path.display().to_string(), text }
    }

    /// Edits a file in its place.
    ///
    /// # Panics
    /// If it can't be read or written, or an edit is not possible.
    pub fn edit(path: &Path, edits: impl FnOnce(Self) -> Self) {
        edits(Self::read(path)).write(path);
    }

    /// Writes the file.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(&self, path: &Path) {
        fs::write(path, &self.text).unwrap_or_else(|cause| panic!("can't write {path:?}: {cause}"));
    }

    /// Returns the text of an item, with its attributes and its documentation.
    fn item(&self, path: &str) -> &str {
        &self.text[self.found(path).place]
    }

    /// Puts `text` in place of an item.
    ///
    /// # Panics
    /// If there is no such item, or more than one.
    #[must_use]
    pub fn replace(self, path: &str, text: &str) -> Self {
        let place = self.found(path).place;
        self.with(place, text)
    }

    /// Removes items.
    ///
    /// # Panics
    /// If there is no such item, or more than one.
    #[must_use]
    pub fn remove(self, paths: &[&str]) -> Self {
        paths.iter().fold(self, |source, path| source.replace(path, ""))
    }

    /// Removes everything but some items.
    ///
    /// # Panics
    /// If there is no such item, or more than one.
    #[must_use]
    pub fn only(mut self, paths: &[&str]) -> Self {
        self.text = paths.iter().map(|path| format!("{}\n", self.item(path))).collect();
        self
    }

    /// Puts `text` before an item.
    ///
    /// # Panics
    /// If there is no such item, or more than one.
    #[must_use]
    pub fn before(self, path: &str, text: &str) -> Self {
        let start = self.found(path).place.start;
        self.with(start..start, &format!("{text}\n\n"))
    }

    /// Puts `text` at the end of the file.
    #[must_use]
    pub fn append(mut self, text: &str) -> Self {
        self.text += "\n";
        self.text += text;
        self
    }

    /// Puts `text` in place of the body of a function.
    ///
    /// # Panics
    /// If there is no such function, or more than one.
    #[must_use]
    pub fn body(self, path: &str, text: &str) -> Self {
        let body = self.found(path).body.unwrap_or_else(|| panic!("{}: {path} has no body", self.name));
        self.with(body, &format!("\n{text}\n"))
    }

    /// Puts `text` in place of the one statement in an item that begins with `start`.
    ///
    /// # Panics
    /// If there is no such item or statement, or more than one.
    #[must_use]
    pub fn statement(self, path: &str, start: &str, text: &str) -> Self {
        let (place, _) = self.found_statement(path, start);
        self.with(place, text)
    }

    /// Puts `text` before the one statement in an item that begins with `start`.
    ///
    /// # Panics
    /// If there is no such item or statement, or more than one.
    #[must_use]
    pub fn before_statement(self, path: &str, start: &str, text: &str) -> Self {
        let (place, _) = self.found_statement(path, start);
        self.with(place.start..place.start, &format!("{text}\n"))
    }

    /// Puts `text` in place of a statement in an item and of all that is behind it in the same block.
    ///
    /// # Panics
    /// If there is no such item or statement, or more than one.
    #[must_use]
    pub fn rest(self, path: &str, start: &str, text: &str) -> Self {
        let (place, end) = self.found_statement(path, start);
        self.with(place.start..end, &format!("{text}\n"))
    }

    /// Puts `new` in place of some words in an item, which are there exactly `count` times.
    ///
    /// # Panics
    /// If there is no such item, or the words are not there so often.
    #[must_use]
    pub fn words(self, path: &str, old: &str, new: &str, count: usize) -> Self {
        let place = self.found(path).place;
        let item = &self.text[place.clone()];
        assert_eq!(item.matches(old).count(), count, "{}: {old:?} in {path}", self.name);
        let text = item.replace(old, new);
        self.with(place, &text)
    }

    /// Puts `new` in place of some words anywhere in the file, which are there exactly `count` times.
    ///
    /// # Panics
    /// If the words are not there so often.
    #[must_use]
    pub fn words_anywhere(mut self, old: &str, new: &str, count: usize) -> Self {
        assert_eq!(self.text.matches(old).count(), count, "{}: {old:?}", self.name);
        self.text = self.text.replace(old, new);
        self
    }

    /// Removes names from the imports of the file.
    ///
    /// # Panics
    /// If a name is not imported, or more than once.
    #[must_use]
    pub fn unimport(self, names: &[&str]) -> Self {
        names.iter().fold(self, |source, name| {
            let places = find::imports(&source.parsed().items, name);
            let [place] = &places[..] else { panic!("{}: {} imports of {name}", source.name, places.len()) };
            let place = place.clone();
            source.with(place, "")
        })
    }

    /// Makes the root of a crate a file that another root may include.
    ///
    /// Attributes of the file are not allowed there: they are left out, and the documentation becomes that of a type for its examples alone.
    #[must_use]
    pub fn included(self) -> Self {
        let attributes = self.parsed().attrs;
        let documentation = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
        let documentation = documentation.map(|attribute| &self.text[attribute.span().byte_range()]);
        // `#![doc(…)]` is a setting.
        let documentation = documentation.filter(|text| !text.starts_with("#![doc("));
        let outer = documentation.map(|text| text.replacen("//!", "///", 1).replacen("#![", "#[", 1));
        let outer = outer.collect::<Vec<_>>().join("\n");
        let places = attributes.iter().rev().map(|attribute| attribute.span().byte_range());
        let source = places.fold(self.clone(), |source, place| source.with(place, ""));
        source.append(&format!("{outer}\n#[cfg(doctest)]\npub struct RootDocumentation;\n"))
    }

    fn with(mut self, place: Range<usize>, text: &str) -> Self {
        self.text.replace_range(place, text);
        self
    }

    fn parsed(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|cause| panic!("{}: {cause}", self.name))
    }

    fn found(&self, path: &str) -> Found {
        let mut found = find::items(&self.parsed().items, path);
        assert_eq!(found.len(), 1, "{}: items that are {path}", self.name);
        found.remove(0)
    }

    fn found_statement(&self, path: &str, start: &str) -> (Range<usize>, usize) {
        let (file, within) = (self.parsed(), self.found(path).place);
        let mut found = find::statements(&file, &self.text, &within, start);
        assert_eq!(found.len(), 1, "{}: statements of {path} that begin with {start:?}", self.name);
        found.remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! A list.
#![no_std]

use core::{fmt, mem::{self, take}};
use core::ptr;

extern crate core as std;

/// Numbers.
struct List<const N: usize>([u8; N]);

impl<const N: usize> List<N> {
    /// Returns the first.
    fn first(&self) -> u8 {
        let first = self.0[0];
        if first > 7 {
            let more = first + 1;
            return more;
        }
        first
    }
}

impl<const N: usize> Drop for List<N> {
    fn drop(&mut self) {}
}

one! {}

mod tests {
    fn empty() {}
}
";

    fn source() -> Source {
        Source { name: "list.rs".into(), text: TEXT.into() }
    }

    #[test]
    fn items_are_found_by_their_paths() {
        assert_eq!(source().item("tests::empty"), "fn empty() {}");
        assert_eq!(source().item("one!"), "one! {}");
        assert_eq!(source().item("extern crate std"), "extern crate core as std;");
        assert!(source().item("impl List").starts_with("impl<const N: usize> List<N> {"));
        assert!(source().item("impl Drop for List").contains("Drop for"));
        assert_eq!(source().item("impl Drop for List::drop"), "fn drop(&mut self) {}");
        assert!(source().item("List::first").starts_with("/// Returns the first."));
        assert_eq!(source().item("List"), "/// Numbers.\nstruct List<const N: usize>([u8; N]);");
    }

    #[test]
    fn bodies_statements_and_words_are_replaced() {
        let text = source().body("List::first", "7").text;
        assert!(text.contains("fn first(&self) -> u8 {\n7\n}"), "{text}");
        let text = source().statement("List::first", "let more", "let more = 2;").text;
        assert!(
            text.contains("if first > 7 {\n            let more = 2;\n            return more;"),
            "{text}"
        );
        let text = source().rest("List::first", "if first", "9").text;
        assert!(text.contains("let first = self.0[0];\n        9\n}"), "{text}");
        let text = source().words("List::first", "more", "less", 2).text;
        assert!(text.contains("let less = first + 1;\n            return less;"), "{text}");
        let text = source().before("one!", "two!();").text;
        assert!(text.contains("two!();\n\none! {}"), "{text}");
    }

    #[test]
    fn imports_are_removed_one_by_one() {
        let text = source().unimport(&["fmt", "take", "ptr"]).text;
        assert!(text.contains("use core::{ mem::{self, }};\n\n"), "{text}");
    }

    #[test]
    fn a_root_can_be_included() {
        let text = source().included().text;
        assert!(text.starts_with("\n\n\nuse core"), "{text}");
        assert!(text.ends_with("/// A list.\n#[cfg(doctest)]\npub struct RootDocumentation;\n"), "{text}");
    }

    #[test]
    #[should_panic(expected = "items that are List::last")]
    fn an_item_that_is_not_there_is_reported() {
        let _ = source().body("List::last", "");
    }
}
