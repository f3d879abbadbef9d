//! The instructions that each row takes, as the documents tell them: `docs/instructions.toml`, and
//! `docs/kernel-instructions.toml` for a whole vmalloc in a kernel.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

/// The rows that Callgrind counts.
pub(super) const CALLGRIND: &str = "docs/instructions.toml";
/// The rows that an emulated machine counts.
pub(super) const KERNEL: &str = "docs/kernel-instructions.toml";
/// The part of a row by which a count may differ from it: compilers differ by that much.
const MARGIN: f64 = 0.03;

/// Counts by the names of workloads.
type Counts = BTreeMap<String, f64>;

/// Compares the counts with their rows. Each has to have one, and more as well as fewer differ: the
/// documents tell the rows.
pub(super) fn check(path: &'static str, counts: &Counts) -> Result<()> {
    let rows = different(counts, &read(path)?);
    ensure!(
        rows.is_empty(),
        "not as {path} has it (--bless lowers rows to what was counted): {}",
        rows.join(", ")
    );
    Ok(())
}

fn read(path: &'static str) -> Result<Counts> {
    let text = fs::read_to_string(path).context(path)?;
    toml::from_str(&text).context(path)
}

fn different(counts: &Counts, rows: &Counts) -> Vec<String> {
    let different = |(name, &count): (&String, &f64)| {
        let Some(&row) = rows.get(name) else {
            return Some(format!("{name}: {count:.1}, and it has no row"));
        };
        let percent = (count / row - 1.0) * 100.0;
        (percent.abs() > MARGIN * 100.0).then(|| format!("{name}: {count:.1}, not {row} ({percent:+.1} %)"))
    };
    counts.iter().filter_map(different).collect()
}

/// Makes sure that each of the names has a row.
pub(super) fn has_rows<'a>(path: &'static str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let rows = read(path)?;
    let missing: Vec<_> = names.filter(|&name| !rows.contains_key(name)).collect();
    ensure!(missing.is_empty(), "{path} has no row for {}: --bless adds it", missing.join(", "));
    Ok(())
}

/// Lowers the rows to what was counted, and adds those that are missing. None is raised:
/// `cargo xtask ratchet`.
pub(super) fn write(path: &'static str, counts: Counts) -> Result<()> {
    let mut rows = if fs::exists(path).unwrap_or(false) { read(path)? } else { Counts::new() };
    lower(&mut rows, counts);
    let kernel = if path == KERNEL { " --kernel" } else { "" };
    let mut text = format!(
        "# Instructions of each row, which the documents tell. `cargo xtask instructions{kernel} --check` fails where\n\
         # a count is more than 3 % above or below; `cargo xtask instructions{kernel} --bless` lowers rows to what it counts.\n\n"
    );
    for (name, count) in &rows {
        let _ = writeln!(text, "\"{name}\" = {count:.1}");
    }
    fs::write(path, text).context(path)
}

fn lower(rows: &mut Counts, counts: Counts) {
    for (name, count) in counts {
        rows.entry(name).and_modify(|row| *row = row.min(count)).or_insert(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_more_than_three_percent_away_from_its_row_is_named() {
        let counts = |values: [f64; 2]| ["a", "b"].map(str::to_owned).into_iter().zip(values).collect();
        let rows = counts([100.0, 200.0]);
        assert_eq!(different(&counts([102.9, 195.0]), &rows), [""; 0]);
        let told = ["a: 90.0, not 100 (-10.0 %)", "b: 207.0, not 200 (+3.5 %)"];
        assert_eq!(different(&counts([90.0, 207.0]), &rows), told);
        assert_eq!(different(&counts([100.0, 200.0]), &Counts::new()).len(), 2);
        let mut lowered = counts([100.0, 200.0]);
        lower(&mut lowered, counts([99.0, 201.0]));
        assert_eq!(lowered, counts([99.0, 200.0]));
    }
}
