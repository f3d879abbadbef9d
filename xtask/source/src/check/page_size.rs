//! No product assumes the size of a page: it comes from the space, or from the machine.
//!
//! The rule finds what spells 4,096 bytes in code that is no test: the number or the one below it,
//! a product or a shift of numbers that is 4,096, a shift by 12, and 12 for a constant of pages. A
//! crate of a platform that has such pages may say so. Elsewhere a comment says `no page size`, and
//! what the number is instead, in the three lines before it or behind it in the line.

use super::Violation;
use super::source::{File, Package};
use regex_lite::Regex;
use std::sync::LazyLock;

/// What spells the size of a page.
const SPELLED: &str = r"(?x)
    \b (?: 0[xX]0*(?:1_?000|[fF]{3}) | 4_?09[56] ) (?: _?[iu]\w+ )? \b
    | (?: << | >> ) =? \s* 12 \b
    | \b (?: 2 \s* << \s* 11 | 4 \s* << \s* 10 | 8 \s* << \s* 9 ) \b
    | \b (?: 4 \s* \* \s* 1024 | 1024 \s* \* \s* 4 | 8 \s* \* \s* 512 | 512 \s* \* \s* 8 ) \b
    | \b (?: const | static ) \s+ \w* (?: PAGE | SHIFT ) \w* : [^=]* = \s* (?: Some\( )? 12 \b";
/// Texts in quotes, and what stands behind them in a comment.
const NO_CODE: &str = r#""(?:[^"\\]|\\.)*"|//.*"#;

/// Crates of platforms whose pages have this size.
const PLATFORMS: [&str; 1] = ["crates/vmalloc-tables"];
/// The folder of the Python package, a product beside the crates.
pub(super) const PYTHON: &str = "python";
/// What a comment says of a number that happens to be that of a page.
const EXCUSE: &str = "no page size";
/// How many lines before the number the comment may begin.
const BEFORE: usize = 3;
/// The words for a comment that names the architecture with that size of pages.
const ARCHITECTURE: &str = "the architecture says it";

pub(super) fn check(package: &Package, found: &mut Vec<Violation>) {
    let is_product = package.folder.starts_with("crates/") || package.folder == PYTHON;
    if !is_product || PLATFORMS.contains(&package.folder.as_str()) {
        return;
    }
    let products = package.files.iter().filter(|file| package.inside(file).starts_with("src/"));
    for file in products.filter(|file| !file.is_test()) {
        for (line, what) in spelled(&file.text) {
            if !is_excused(file, line) {
                let what = format!("{what} looks like the size of a page: ask the space, or say `{EXCUSE}`");
                found.push(Violation::new("page_size", &package.folder, file.at(line), what));
            }
        }
    }
}

fn is_excused(file: &File, line: usize) -> bool {
    let lines = file.text.lines().skip(line.saturating_sub(BEFORE + 1)).take(BEFORE + 1);
    let comments = lines.filter_map(|line| Some(line.split_once("//")?.1)).collect::<Vec<_>>().join(" ");
    // A phrase may go on in the next line.
    let comments = comments.replace(['/', '!'], "").split_whitespace().collect::<Vec<_>>().join(" ");
    comments.contains(EXCUSE) || comments.contains(ARCHITECTURE)
}

/// Returns the lines of code outside of tests that spell the size of a page, and how.
fn spelled(text: &str) -> Vec<(usize, String)> {
    static PATTERNS: LazyLock<[Regex; 2]> =
        LazyLock::new(|| [SPELLED, NO_CODE].map(|pattern| Regex::new(pattern).expect("a pattern")));
    let [spelled, no_code] = &*PATTERNS;
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((nth, line)) = lines.next() {
        if is_test(line.trim()) {
            // rustfmt indents the end of an item as its beginning.
            let indent = |line: &str| line.len() - line.trim_start().len();
            let is_end = |end: &str| indent(end) == indent(line) && end.ends_with(['}', ';']);
            lines.find(|(_, end)| is_end(end));
        } else if spelled.is_match(line)
            && let Some(what) = spelled.find(&no_code.replace_all(line, ""))
        {
            found.push((nth + 1, what.as_str().to_owned()));
        }
    }
    found
}

/// Returns true for the attribute of a test, or of what is built for tests alone.
fn is_test(line: &str) -> bool {
    let has_word =
        |word| line.split(|sign: char| !sign.is_alphanumeric() && sign != '_').any(|part| part == word);
    line == "#[test]" || line.starts_with("#[cfg(") && has_word("test") && !line.contains("not(test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_page_of_4096_bytes_is_found() {
        for code in [
            "const PAGE: usize = 4096;",
            "const PAGE: usize = 4_096_usize;",
            "const MASK: usize = 0xfff;",
            "fn f(x: usize) -> usize { x & !0xFFF }",
            "fn f(x: usize) -> usize { x & !4095 }",
            "const PAGE: usize = 0x1000;",
            "const PAGE: usize = 1 << 12;",
            "const PAGE: usize = 4 << 10;",
            "const PAGE: usize = 4 * 1024;",
            "fn f(x: usize) -> usize { x >> 12 }",
            "fn f(x: u64) -> u64 { x.max(1) << 12 }",
            "const PAGE_SHIFT: u32 = 12;",
            "const PAGE_SHIFT: Option<u32> = Some(12);",
            "fn f() { assert!(size_of::<u8>() < 4096) }",
            "#[cfg(not(test))]\nfn f() -> usize { 4096 }",
        ] {
            assert!(!spelled(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn other_numbers_and_tests_are_no_page_size() {
        for code in [
            "const MIB: usize = 1 << 20;",
            "const COUNT: usize = 12;",
            "fn f(x: usize) -> usize { x / 64 * 64 }",
            "// 4096\n/// 4096\nfn f() {}",
            "#[cfg(test)]\nmod tests { const PAGE: usize = 4096; }",
            "#[cfg(all(test, not(loom)))]\nmod tests { const PAGE: usize = 4096; }",
            "#[test]\nfn f() { let _ = 4096; }",
            "fn f() -> &'static str { \"4096\" }",
        ] {
            assert!(spelled(code).is_empty(), "{code}: {:?}", spelled(code));
        }
    }
}
