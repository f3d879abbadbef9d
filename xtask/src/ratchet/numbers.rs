//! Numbers that may only become smaller, in files of several kinds.

use crate::bounds::Bounds;
use anyhow::Result;
use std::collections::BTreeMap;

/// Numbers by the names that lead to them.
pub(super) type Numbers = BTreeMap<Vec<String>, f64>;

/// The way in which a file has numbers.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// TOML: violations by crate and rule. One that is missing is 0.
    Allowances,
    /// TOML: counts by row. The command that counts fails if a row is missing.
    Bars,
    /// Rust: the last number of each of these constants.
    Constants(&'static [&'static str]),
}

impl Kind {
    pub(super) fn numbers(self, path: &'static str, text: &str) -> Result<Numbers> {
        let mut numbers = Numbers::new();
        match self {
            Self::Allowances | Self::Bars => collect(&Bounds::parse(path, text)?, &[], &mut numbers),
            Self::Constants(names) => {
                let number = |&name: &&str| Some((vec![name.to_owned()], constant(text, name)?));
                numbers.extend(names.iter().filter_map(number));
            }
        }
        Ok(numbers)
    }
}

/// Adds the numbers to which `names` lead.
fn collect(bounds: &Bounds, names: &[&str], numbers: &mut Numbers) {
    if let Some(number) = bounds.get(names) {
        numbers.insert(names.iter().map(|&name| name.to_owned()).collect(), number);
    }
    bounds.names(names).iter().for_each(|name| collect(bounds, &[names, &[name]].concat(), numbers));
}

/// Returns the last number of a constant.
fn constant(text: &str, name: &str) -> Option<f64> {
    let (_, value) = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("const ")?;
        rest.strip_prefix(name)?.strip_prefix(':')?.split_once('=')
    })?;
    let words = value.split(|char: char| !(char.is_ascii_digit() || "_.".contains(char)));
    words.filter_map(|word| word.replace('_', "").parse().ok()).next_back()
}
