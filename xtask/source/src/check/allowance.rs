//! How many violations of each rule a crate may still have: a ratchet.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

const PATH: &str = "xtask/source/allowance.toml";
const HEAD: &str = "# Violations of the rules of `cargo xtask check` that are still there, for each crate.\n\
                    # The numbers may only become smaller: `cargo xtask check --bless` lowers them.\n";

/// Counts by crate and rule.
pub(super) struct Allowance(BTreeMap<String, BTreeMap<String, usize>>);

impl Allowance {
    pub(super) fn read() -> Result<Self> {
        Ok(Self(toml::from_str(&crate::read(PATH)?).context(PATH)?))
    }

    /// Returns how many violations of `rule` the crate in the folder `package` may have.
    pub(super) fn of(&self, package: &str, rule: &str) -> usize {
        self.0.get(package).and_then(|rules| rules.get(rule)).copied().unwrap_or(0)
    }

    /// Returns the allowances lowered to `counts`.
    pub(super) fn lowered(&self, counts: &BTreeMap<(String, &str), usize>) -> Self {
        let mut lower: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for ((package, rule), &count) in counts {
            let count = count.min(self.of(package, rule));
            if count > 0 {
                lower.entry(package.clone()).or_default().insert((*rule).to_owned(), count);
            }
        }
        Self(lower)
    }

    pub(super) fn write(&self) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (package, rules) in &self.0 {
            let _ = write!(text, "\n[\"{package}\"]\n");
            for (rule, count) in rules {
                let _ = writeln!(text, "{rule} = {count}");
            }
        }
        fs::write(PATH, text).with_context(|| format!("cannot write {PATH}"))
    }

    /// Prints where fewer violations are found than are allowed.
    pub(super) fn print_slack(&self, counts: &BTreeMap<(String, &str), usize>) {
        for (package, rules) in &self.0 {
            for (rule, &allowed) in rules {
                let key = counts.iter().find(|((known, name), _)| known == package && name == rule);
                let count = key.map_or(0, |(_, &count)| count);
                if count < allowed {
                    println!("{package}: {rule}: {count}, and {allowed} are allowed: --bless lowers it");
                }
            }
        }
    }
}
