//! `cargo xtask policy`: what the caching policy takes, counted, and judged by six figures that a user feels.

use crate::bounds::Bounds;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::process::Command;

/// Count pages, calls and addresses of twelve loads on the caching policy
///
/// Each row is a load, the calls between two drains by age, and whether areas have guard pages: fresh pages a pair, the most
/// pages with memory over the most in use, the span over the most in use, and calls of the platform a pair. A pair is an
/// allocation and a free. The page tables only count and there is no time, so rows repeat to the last digit.
///
/// Below the rows are six figures: the geometric mean of each count over the rows, and the worst row of fresh pages and of
/// memory. Each has its bar and its weight in docs/policy.toml. One may be above its bar where others are as far below:
/// the command fails if the weighed sum of the changes is above zero.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Set the bars to what was counted, unless the weighed sum is above zero.
    #[arg(long)]
    bless: bool,
}

pub(crate) const PATH: &str = "docs/policy.toml";
/// The counts of each load, as the program names them.
const COUNTS: [&str; 4] = ["fresh", "memory", "span", "calls"];
/// The least count that a mean is taken of, the last digit of the table: a load without calls does not hide the others.
const LEAST: f64 = 1e-4;

/// The counts of each row, in the order of [`COUNTS`].
type Rows = BTreeMap<String, [f64; 4]>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let (rows, mut bounds) = (count()?, Bounds::read(PATH)?);
    ensure!(
        bounds.get(&["rows"]) == Some(rows.len() as f64),
        "{PATH} is of another number than {} rows",
        rows.len()
    );
    let figures = figures(&rows);
    let now = |name: &str| figures.iter().find(|figure| figure.0 == name).map(|figure| figure.1);
    let rise = weighed_rise(&bounds, now)?;
    println!("{}{}weighed sum: {:+.2} %", table(&rows), summary(&figures, &bounds), 100.0 * rise);
    ensure!(rise <= 0.0, "the weighed sum of the changes against {PATH} is above zero");
    if args.bless {
        figures.iter().for_each(|(name, figure)| bounds.set(&[name, "bar"], *figure));
        bounds.write()?;
    }
    Ok(())
}

/// Builds and runs the program that counts.
fn count() -> Result<Rows> {
    let printed = process::output(Command::new(process::counts()?).arg("--policy"))?;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed)?;
    let parse = |row: &serde_json::Value| {
        let [fresh, memory, span, calls] = COUNTS.map(|name| row[name].as_f64());
        Some((row["row"].as_str()?.to_owned(), [fresh?, memory?, span?, calls?]))
    };
    rows.iter().map(|row| parse(row).with_context(|| format!("{row} is no row"))).collect()
}

/// Returns the six figures, by their names in the file. Each is rounded up to the digits that it has there.
fn figures(rows: &Rows) -> [(&'static str, f64); 6] {
    let counts = |of: usize| rows.values().map(move |counts| counts[of].max(LEAST));
    let mean = |of| (counts(of).map(f64::ln).sum::<f64>() / rows.len() as f64).exp();
    let worst = |of| counts(of).fold(0.0, f64::max);
    let figures = [
        ("fresh", mean(0)),
        ("memory", mean(1)),
        ("span", mean(2)),
        ("calls", mean(3)),
        ("fresh, worst load", worst(0)),
        ("memory, worst load", worst(1)),
    ];
    figures.map(|(name, figure)| (name, (figure * 1e5).ceil() / 1e5))
}

/// Returns by how much the bars are above those of an earlier file.
pub(crate) fn rise_since(before: &str) -> Result<f64> {
    let (before, bars) = (Bounds::parse(PATH, before)?, Bounds::read(PATH)?);
    // Files before this one had a bar for each count of each row.
    if before.get(&["rows"]).is_none() {
        return Ok(0.0);
    }
    weighed_rise(&before, |name| bars.get(&[name, "bar"]))
}

/// Returns by how much the figures of `now` are above the bars of `before`, each by its weight there. The logarithm makes
/// a rise by half as much as a fall by a third.
fn weighed_rise(before: &Bounds, now: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let names = before.names(&[]).into_iter().filter(|name| name != "rows");
    let rise = |name: &str| {
        let [bar, weight] = ["bar", "weight"].map(|what| before.get(&[name, what]));
        Some(weight? * (now(name)? / bar?).ln())
    };
    names.map(|name| rise(&name).with_context(|| format!("{PATH}: no bar, weight or count: {name}"))).sum()
}

fn table(rows: &Rows) -> String {
    let mut text = format!("{:32}", "load, drain every, guards");
    COUNTS.iter().for_each(|name| text += &format!("{name:>10}"));
    for (row, counts) in rows {
        text += &format!("\n{row:32}");
        counts.iter().for_each(|count| text += &format!("{count:>10.4}"));
    }
    text + "\n"
}

fn summary(figures: &[(&str, f64)], bounds: &Bounds) -> String {
    let mut text = format!(
        "\n{:32}{:>10}{:>10}{:>10}{:>10}\n",
        "mean, or worst load", "count", "bar", "change", "weight"
    );
    for (name, figure) in figures {
        let [bar, weight] = ["bar", "weight"].map(|what| bounds.get(&[name, what]).unwrap_or(f64::NAN));
        let change = 100.0 * (figure / bar - 1.0);
        text += &format!("{name:32}{figure:>10.5}{bar:>10.5}{change:>+8.2} %{weight:>10}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARS: &str = "rows = 2\n\"a\" = { bar = 2.0, weight = 4 }\n\"b\" = { bar = 1.0, weight = 1 }\n";

    fn rise(a: f64, b: f64) -> f64 {
        let now = |name: &str| Some(if name == "a" { a } else { b });
        weighed_rise(&Bounds::parse(PATH, BARS).unwrap(), now).unwrap()
    }

    #[test]
    fn a_figure_may_rise_for_what_another_falls_by_weight() {
        assert_eq!(rise(2.0, 1.0), 0.0);
        assert!(rise(2.0, 1.1) > 0.0 && rise(2.1, 1.0) > 0.0);
        assert!(rise(1.9, 1.2) < 0.0, "5 % less of four, 20 % more of one");
        assert!(rise(1.9, 1.3) > 0.0, "30 % more");
        assert!(rise(2.1, 0.8) < 0.0 && rise(2.2, 0.8) > 0.0);
    }

    #[test]
    fn a_figure_that_is_not_counted_fails() {
        let bounds = Bounds::parse(PATH, BARS).unwrap();
        assert!(weighed_rise(&bounds, |name| (name == "a").then_some(2.0)).is_err());
    }

    #[test]
    fn figures_are_geometric_means_and_worst_loads() {
        let rows = [("a", [1.0, 2.0, 4.0, 0.0]), ("b", [4.0, 8.0, 9.0, 1.0])];
        let rows: Rows = rows.map(|(name, counts)| (name.to_owned(), counts)).into();
        let expected = [2.0, 4.0, 6.0, 0.01, 4.0, 8.0];
        for ((name, figure), expected) in figures(&rows).into_iter().zip(expected) {
            assert!((expected..expected + 2e-5).contains(&figure), "{name}: {figure}");
        }
    }

    /// The file has the figures that are counted, and no others.
    #[test]
    fn the_file_names_the_six_figures() {
        let bounds = Bounds::parse(PATH, include_str!("../../docs/policy.toml")).unwrap();
        let names = figures(&Rows::from([(String::new(), [1.0; 4])])).map(|figure| figure.0);
        assert_eq!(bounds.names(&[])[1..], names);
        assert!(names.iter().all(|name| bounds.get(&[name, "weight"]).is_some_and(|weight| weight > 0.0)));
    }
}
