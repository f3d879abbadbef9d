//! Rules of language: summaries that stand alone, lines of comments that fit, words of the field.

use super::Violation;
use super::source::{File, Package};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Beginnings of a summary that needs its neighbours, or has no actor and verb.
const OPENINGS: [&str; 18] = [
    "The same",
    "Same ",
    "What ",
    "Whatever ",
    "Whether ",
    "Who ",
    "Whoever ",
    "Whose ",
    "Which ",
    "As [`",
    "As for",
    "As `",
    "As above",
    "If ",
    "Nobody ",
    "There is ",
    "There are ",
    "See ",
];

/// Beginnings of any comment that has no actor.
const ACTORLESS: [&str; 6] = ["The same", "What is ", "What was ", "Who ", "Whoever ", "Whether what "];

/// Words made at home, for which the field has its own.
const HOME_MADE: [&str; 19] = [
    "asker", "askers", "barren", "buried", "bury", "crew", "exhume", "islands", "ledger", "lots", "planes",
    "shelf", "stray", "strays", "tenure", "torn", "whoever", "anew", "nobody",
];

/// The most columns of a line of comment.
const COLUMNS: usize = 100;

pub(super) fn check(package: &Package, found: &mut Vec<Violation>) {
    for file in &package.files {
        let mut summaries = Summaries { package, file, last_line: 0, found };
        summaries.visit_file(&file.syntax);
        comments(package, file, found);
    }
}

/// Looks at the first line of every doc comment.
struct Summaries<'a> {
    package: &'a Package,
    file: &'a File,
    /// The line of the doc comment before: those of the next line go on with it.
    last_line: usize,
    found: &'a mut Vec<Violation>,
}

impl Visit<'_> for Summaries<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let is_public = matches!(item.vis, syn::Visibility::Public(_));
        let text = item
            .attrs
            .iter()
            .find(|it| matches!(&it.meta, syn::Meta::NameValue(it) if it.path.is_ident("doc")));
        if let Some(text) = text.filter(|_| is_public) {
            let what = "a doc comment of a `pub use` stands before the summary of each item that it shows";
            let place = self.file.at(text.span().start().line);
            self.found.push(Violation::new("re-exports", &self.package.folder, place, what));
        }
        visit::visit_item_use(self, item);
    }

    fn visit_attribute(&mut self, attribute: &syn::Attribute) {
        let line = attribute.span().start().line;
        if !attribute.path().is_ident("doc") {
            return;
        }
        let goes_on = std::mem::replace(&mut self.last_line, line) + 1 == line;
        if goes_on {
            return;
        }
        let syn::Meta::NameValue(value) = &attribute.meta else { return };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { return };
        let summary = text.value();
        let summary = summary.trim();
        if let Some(opening) = OPENINGS.iter().find(|opening| summary.starts_with(**opening)) {
            let what = format!("a summary begins with {:?}: {summary}", opening.trim_end());
            self.found.push(Violation::new("summaries", &self.package.folder, self.file.at(line), what));
        }
    }

    fn visit_file(&mut self, file: &syn::File) {
        // The file's own attributes are those of a module, which has a title and no summary.
        file.items.iter().for_each(|item| visit::visit_item(self, item));
    }
}

/// Looks at every line that is a comment and nothing else.
fn comments(package: &Package, file: &File, found: &mut Vec<Violation>) {
    let mut in_fence = false;
    for (index, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_fence = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            in_fence = !in_fence;
        }
        let mut push =
            |rule, what| found.push(Violation::new(rule, &package.folder, file.at(index + 1), what));
        if line.chars().count() > COLUMNS && !in_fence && !may_be_long(comment) {
            push("columns", format!("{} columns of comment", line.chars().count()));
        }
        if let Some(opening) = ACTORLESS.iter().find(|opening| comment.starts_with(**opening)) {
            push("actors", format!("a comment begins with {:?}: say who acts", opening.trim_end()));
        }
        if let Some(word) = home_made(comment) {
            push("words", format!("a word made at home: {word:?}"));
        }
    }
}

/// Returns true for rows of tables, links and drawings.
fn may_be_long(comment: &str) -> bool {
    let is_drawn = |c: char| ('\u{2500}'..='\u{257f}').contains(&c) || ('\u{2190}'..='\u{21ff}').contains(&c);
    comment.starts_with('|')
        || comment.contains("](")
        || comment.contains("://")
        || comment.contains(is_drawn)
}

/// Returns the first home-made word of `comment`.
fn home_made(comment: &str) -> Option<&str> {
    let mut words = comment.split(|c: char| !c.is_alphanumeric());
    words.find(|word| HOME_MADE.iter().any(|made| word.eq_ignore_ascii_case(made)))
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;

    #[test]
    fn doc_comments_of_public_re_exports_are_found() {
        let text = "pub mod a {\n    /// All of it.\n    pub use b::*;\n    /// Not shown.\n    use c::*;\n    #[doc(inline)]\n    pub use d::*;\n}\n";
        let syntax = syn::parse_file(text).expect("Rust");
        let file = File { path: "lib.rs".into(), text: text.into(), syntax, lines: Lines::of(text) };
        let package = Package { folder: String::new(), files: vec![file] };
        let mut found = Vec::new();
        check(&package, &mut found);
        let places: Vec<_> = found.iter().map(|it| (it.rule, it.place.as_str())).collect();
        assert_eq!(places, [("re-exports", "lib.rs:2")]);
    }

    #[test]
    fn home_made_words_are_found_whole() {
        assert_eq!(home_made("The asker's node"), Some("asker"));
        assert_eq!(home_made("several tasks, and a plane"), None);
    }

    #[test]
    fn tables_links_and_drawings_may_be_long() {
        assert!(["| a | b |", "see [this](that)", "a ──► b"].iter().all(|line| may_be_long(line)));
        assert!(!may_be_long("a sentence"));
    }
}
