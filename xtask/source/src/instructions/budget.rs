//! The most instructions that each workload may take: `docs/instructions.toml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;

const PATH: &str = "docs/instructions.toml";
/// The part of a budget by which a count may exceed it: compilers differ by that much.
const MARGIN: f64 = 0.03;
const HEAD: &str = "# Instructions of one operation of each workload, counted under Callgrind.\n\
                    # `cargo xtask instructions --check` fails where a count is more than 3 % above its row;\n\
                    # `cargo xtask instructions --bless` writes the rows that it counts.\n\n";

/// Counts by the names of workloads.
type Counts = BTreeMap<String, f64>;

/// Why a budget does not hold.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read or write {PATH}: {0}")]
    File(#[from] io::Error),
    #[error("{PATH}: {0}")]
    Parse(#[from] toml::de::Error),
    #[error("above the budget of {PATH}: {}", .0.join(", "))]
    Above(Vec<String>),
}

/// Compares the counts with their budgets. Workloads without a budget pass.
pub(super) fn check(counts: &Counts) -> Result<(), Error> {
    let budgets: Counts = toml::from_str(&fs::read_to_string(PATH)?)?;
    let above = exceeded(counts, &budgets);
    if above.is_empty() { Ok(()) } else { Err(Error::Above(above)) }
}

fn exceeded(counts: &Counts, budgets: &Counts) -> Vec<String> {
    let above = |(name, &count): (&String, &f64)| {
        let budget = *budgets.get(name)?;
        let percent = (count / budget - 1.0) * 100.0;
        (count > budget * (1.0 + MARGIN)).then(|| format!("{name}: {count:.1} of {budget} (+{percent:.1} %)"))
    };
    counts.iter().filter_map(above).collect()
}

/// Replaces the budgets of the workloads that were counted.
pub(super) fn write(counts: Counts) -> Result<(), Error> {
    let mut budgets: Counts = match fs::read_to_string(PATH) {
        Ok(text) => toml::from_str(&text)?,
        Err(_) => Counts::new(),
    };
    budgets.extend(counts);
    let mut text = HEAD.to_owned();
    for (name, count) in &budgets {
        let _ = writeln!(text, "\"{name}\" = {count:.1}");
    }
    Ok(fs::write(PATH, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_more_than_three_percent_above_its_budget_is_named() {
        let counts = |values: [f64; 2]| ["a", "b"].map(str::to_owned).into_iter().zip(values).collect();
        let budgets = counts([100.0, 200.0]);
        assert_eq!(exceeded(&counts([103.0, 150.0]), &budgets), [""; 0]);
        assert_eq!(exceeded(&counts([99.0, 207.0]), &budgets), ["b: 207.0 of 200 (+3.5 %)"]);
    }
}
