//! No product assumes the size of a page: it comes from the space, or from the machine.
//!
//! The rule finds what spells 4,096 bytes in code that is no test: the number or the one below it,
//! a product or a shift of numbers that is 4,096, a shift by 12, and 12 for a constant of pages. A
//! crate of a platform that has such pages may say so. Elsewhere a comment says `no page size`, and
//! what the number is instead, in the three lines before it or behind it in the line.

use super::Violation;
use super::source::{File, Package};
use proc_macro2::{TokenStream, TokenTree};

/// Crates of platforms whose pages have this size.
const PLATFORMS: [&str; 1] = ["crates/vmalloc-x86_64"];
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
                found.push(Violation {
                    rule: "page_size",
                    package: package.folder.clone(),
                    place: file.at(line),
                    what: format!("{what} looks like the size of a page: ask the space, or say `{EXCUSE}`"),
                });
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
    let mut found = Vec::new();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        collect(tokens, &mut found);
    }
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let (mut at, mut name) = (0, String::new());
    while at < tokens.len() {
        if let Some(behind) = test_item(&tokens[at..]) {
            at += behind;
            continue;
        }
        match &tokens[at] {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "const" | "static" => {
                    name = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
                }
                _ => {}
            },
            TokenTree::Punct(punct) if punct.as_char() == ';' => name.clear(),
            _ => {}
        }
        if let Some(what) = size_at(&tokens, at, &name) {
            found.push((tokens[at].span().start().line, what));
        }
        at += 1;
    }
}

/// Returns how the token at `at` and those around it spell the size of a page, if they do.
fn size_at(tokens: &[TokenTree], at: usize, constant: &str) -> Option<String> {
    let of_pages = constant.contains("PAGE") || constant.contains("SHIFT");
    if let TokenTree::Group(group) = &tokens[at] {
        // `Some(12)`
        let inner: Vec<_> = group.stream().into_iter().collect();
        let is_shift = of_pages && inner.len() == 1 && number(&inner[0]) == Some(12);
        return is_shift.then(|| format!("12 for {constant}"));
    }
    let value = number(&tokens[at])?;
    let operator = |at: usize| match tokens.get(at) {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    };
    // What stands before this number, with its operator: `1 << 12`, `x >> 12`, `4 * 1024`.
    let before = at.checked_sub(1).and_then(operator);
    let is_shift = matches!(before, Some('<' | '>')) && at >= 2 && operator(at - 2) == before;
    let left = |distance: usize| at.checked_sub(distance).and_then(|at| number(&tokens[at]));
    let product = match before {
        _ if is_shift => left(3).and_then(|left| left.checked_shl(u32::try_from(value).ok()?)),
        // In `x / 64 * 64` the first number is no factor.
        Some('*') if at < 3 || operator(at - 3) != Some('/') => left(2).map(|left| left.wrapping_mul(value)),
        _ => None,
    };
    if matches!(value, 4095 | 4096) || product == Some(4096) {
        return Some("a number".to_owned());
    }
    if is_shift && value == 12 {
        return Some("a shift by 12".to_owned());
    }
    (of_pages && value == 12 && before == Some('=')).then(|| format!("12 for {constant}"))
}

/// Returns the value of an integer literal.
fn number(token: &TokenTree) -> Option<u64> {
    let TokenTree::Literal(literal) = token else { return None };
    let syn::Lit::Int(int) = syn::Lit::new(literal.clone()) else { return None };
    int.base10_parse().ok()
}

/// Returns how many tokens an item of tests has, if one begins here: one with the attribute
/// `#[test]`, or `#[cfg(…)]` with `test` in it and no `not`.
fn test_item(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = tokens else { return None };
    let text = attribute.stream().to_string();
    let is_test = text == "test" || text.starts_with("cfg") && words(&text, "test") && !words(&text, "not");
    if hash.as_char() != '#' || !(is_test || text.starts_with("cfg") && is_test_beside_loom(&text)) {
        return None;
    }
    // To the end of the item: its braces, or a semicolon.
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let length = tokens.iter().position(is_end).unwrap_or(tokens.len() - 1);
    Some(length + 1)
}

/// Returns true for `cfg(all(test, not(loom)))` and the like: the test is not what is left out.
fn is_test_beside_loom(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    words(&plain, "test") && !plain.contains("not(test")
}

fn words(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
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
