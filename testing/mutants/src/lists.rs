//! Two lists of mutants, those that tests catch and those that survive for a reason, and how a run
//! differs from them.

use crate::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The two lists.
pub(crate) struct Lists {
    pub(crate) caught: BTreeSet<String>,
    /// Each with the reason why no test catches it.
    pub(crate) survivors: BTreeMap<String, String>,
}

/// The difference between what is listed and what a run has shown.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Caught before, and no more.
    pub(crate) lost: Vec<String>,
    /// Not caught, and no reason is given.
    pub(crate) unexplained: Vec<String>,
    /// Listed as survivors, and caught now.
    pub(crate) gained: Vec<String>,
}

const CAUGHT: &str = "caught.txt";

impl Lists {
    /// Reads the lists in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let caught = fs::read_to_string(folder.join(CAUGHT)).unwrap_or_default();
        let survivors = toml::from_str(&fs::read_to_string(folder.join("survivors.toml"))?)?;
        Ok(Self { caught: caught.lines().map(str::to_owned).collect(), survivors })
    }

    /// Compares with a run: `results` tells of each mutant whether it was caught.
    pub(crate) fn compare(&self, results: &BTreeMap<String, bool>) -> Difference {
        let mut difference = Difference::default();
        for (name, &is_caught) in results {
            let is_known = self.survivors.contains_key(name);
            let list = match (is_caught, self.caught.contains(name)) {
                (false, true) => &mut difference.lost,
                (false, false) if !is_known => &mut difference.unexplained,
                (true, _) if is_known => &mut difference.gained,
                _ => continue,
            };
            list.push(name.clone());
        }
        difference
    }

    /// Writes the list of those that are caught, together with those that exist and were not run.
    pub(crate) fn bless(
        mut self,
        folder: &Path,
        results: &BTreeMap<String, bool>,
        exists: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        self.caught.retain(|name| !results.contains_key(name) && exists(name));
        self.caught.extend(results.iter().filter(|(_, is_caught)| **is_caught).map(|(name, _)| name.clone()));
        let lines: Vec<String> = self.caught.into_iter().map(|name| name + "\n").collect();
        Ok(fs::write(folder.join(CAUGHT), lines.concat())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_that_survives_needs_a_reason_and_must_not_have_been_caught() {
        let caught = ["a", "b"].map(str::to_owned).into();
        let survivors = ["b", "c", "d"].map(|name| (name.to_owned(), "a reason".to_owned())).into();
        let results = [("a", false), ("b", true), ("c", false), ("e", false), ("f", true)];
        let results = results.map(|(name, is_caught)| (name.to_owned(), is_caught)).into();
        let difference = Lists { caught, survivors }.compare(&results);
        let [lost, unexplained, gained] = ["a", "e", "b"].map(|name| vec![name.to_owned()]);
        assert_eq!(difference, Difference { lost, unexplained, gained });
    }
}
