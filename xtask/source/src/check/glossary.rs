//! Rules of `docs/glossary.md`: few words, each defined once, in an order.

use super::Violation;
use anyhow::Result;
use std::collections::BTreeSet;

const PATH: &str = "docs/glossary.md";
/// The most words that a reader has to learn.
const MOST: usize = 40;

/// A definition: its line, the word, and the other words in bold.
struct Entry {
    line: usize,
    word: String,
    uses: Vec<String>,
}

pub(super) fn check(found: &mut Vec<Violation>) -> Result<()> {
    let text = crate::read(PATH)?;
    let violation =
        |(line, what): (usize, String)| Violation::new("glossary", "docs", format!("{PATH}:{line}"), what);
    found.extend(wrong(&entries(&text)).into_iter().map(violation));
    Ok(())
}

/// Returns the definitions: lines, items of lists, numbered or not, and rows that begin with a word
/// in bold.
fn entries(text: &str) -> Vec<Entry> {
    let entry = |(index, line): (usize, &str)| {
        let (word, rest) = bold(line)?.split_once("**")?;
        let uses = rest.split("**").skip(1).step_by(2).map(str::to_lowercase).collect();
        let is_word = !word.is_empty() && word.len() < 30;
        is_word.then(|| Entry { line: index + 1, word: word.to_lowercase(), uses })
    };
    text.lines().enumerate().filter_map(entry).collect()
}

/// Returns what follows the stars of a line that begins with a word in bold.
fn bold(line: &str) -> Option<&str> {
    line.trim_start_matches(|c: char| c.is_ascii_digit() || "-.| ".contains(c)).strip_prefix("**")
}

/// Returns the lines that break a rule, and how.
fn wrong(entries: &[Entry]) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    if let Some(entry) = entries.get(MOST) {
        all.push((entry.line, format!("{} words are more than {MOST}", entries.len())));
    }
    let is_alphabetical = entries.is_sorted_by_key(|entry| &entry.word);
    let words: BTreeSet<_> = entries.iter().map(|entry| &entry.word).collect();
    let mut defined = BTreeSet::new();
    for entry in entries {
        let early = entry.uses.iter().find(|word| words.contains(word) && !defined.contains(*word));
        if let Some(word) = early.filter(|word| !is_alphabetical && **word != entry.word) {
            all.push((entry.line, format!("{word:?} is used before it is defined")));
        }
        if !defined.insert(&entry.word) {
            all.push((entry.line, format!("{:?} is defined twice", entry.word)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_defined_once_and_before_their_use() {
        let right = "# Words\n- **page**: a unit.\n- **area**: some **page**s.\n";
        assert_eq!(wrong(&entries(right)), []);
        let wrong_text = "- **page**: a unit of an **area**.\n- **area**: pages.\n- **page**: again.\n";
        let lines: Vec<_> = wrong(&entries(wrong_text)).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3]);
        let numbered =
            "1. **page**: a unit.\n2. **area**: some **leaf**.\n10. **leaf**: 256 of them.\n11. **page**.\n";
        let lines: Vec<_> = wrong(&entries(numbered)).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn the_words_of_the_page_are_found() {
        let text = include_str!("../../../../docs/glossary.md");
        let entries = entries(text);
        assert!(entries.len() > 30, "{} words", entries.len());
        assert_eq!(wrong(&entries), []);
    }
}
