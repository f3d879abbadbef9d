//! How many violations of each rule a crate may still have: a ratchet.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;

const PATH: &str = "xtask/source/allowance.toml";
const HEAD: &str = "# Violations of the rules of `cargo xtask check` that are still there, for each crate.\n\
                    # The numbers may only become smaller: `cargo xtask check --bless` lowers them.\n";

/// Counts by crate and rule. Without a file everything is allowed, so that one can be made.
pub(super) struct Allowance(Option<BTreeMap<String, BTreeMap<String, usize>>>);

impl Allowance {
    pub(super) fn read() -> Result<Self> {
        match fs::read_to_string(PATH) {
            Ok(text) => Ok(Self(Some(toml::from_str(&text).context(PATH)?))),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Self(None)),
            Err(cause) => Err(cause).context(format!("cannot read {PATH}")),
        }
    }

    /// Returns how many violations of `rule` the crate in the folder `package` may have.
    pub(super) fn of(&self, package: &str, rule: &str) -> usize {
        let Some(known) = &self.0 else { return usize::MAX };
        known.get(package).and_then(|rules| rules.get(rule)).copied().unwrap_or(0)
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
        Self(Some(lower))
    }

    pub(super) fn write(&self) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (package, rules) in self.0.iter().flatten() {
            let _ = write!(text, "\n[\"{package}\"]\n");
            for (rule, count) in rules {
                let _ = writeln!(text, "{rule} = {count}");
            }
        }
        fs::write(PATH, text).with_context(|| format!("cannot write {PATH}"))
    }

    /// Prints where fewer violations are found than are allowed.
    pub(super) fn print_slack(&self, counts: &BTreeMap<(String, &str), usize>) {
        for (package, rules) in self.0.iter().flatten() {
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
