//! `cargo xtask policy`: what the caching policy takes, counted and compared with its budget.

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
/// Beside each count is its bar, of docs/policy.toml. A count above its bar is marked `*` if it is no more than the file
/// says that it was (a bar that is missed), and else `!`, and the command fails.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lower the file to what was counted, and add the rows that it lacks. Nothing is raised.
    #[arg(long)]
    bless: bool,
}

const PATH: &str = "docs/policy.toml";
/// The list of the bars that are missed, each with what was counted. No row has this name.
const MISSED: &str = "missed";
/// A bar over what was counted when it was set.
const ROOM: f64 = 1.05;
/// The counts of each load, as the program and the file name them.
const MEASURES: [&str; 4] = ["fresh", "memory", "span", "calls"];

/// The counts of each row, in the order of [`MEASURES`].
type Rows = BTreeMap<String, [f64; 4]>;

/// What a count is against its bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Within,
    /// Above its bar, but no more than it was.
    Missed,
    /// More than it was, and above its bar; or without one.
    Above,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = count()?;
    let mut bounds = Bounds::read(PATH)?;
    if args.bless {
        lower(&mut bounds, &rows);
        return bounds.write();
    }
    print!("{}", table(&rows, &bounds));
    let complaints = complaints(&rows, &bounds);
    ensure!(complaints.is_empty(), "not within {PATH}:\n{}", complaints.join("\n"));
    Ok(())
}

/// Builds and runs the program that counts.
fn count() -> Result<Rows> {
    let printed = process::output(Command::new(process::counts()?).arg("--policy"))?;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed)?;
    let parse = |row: &serde_json::Value| {
        let counts = MEASURES.map(|measure| row[measure].as_f64().unwrap_or(f64::NAN));
        Some((row["row"].as_str()?.to_owned(), counts))
    };
    rows.iter().map(|row| parse(row).with_context(|| format!("{row} is no row"))).collect()
}

fn table(rows: &Rows, bounds: &Bounds) -> String {
    let mut text = format!("{:32}", "load, drain every, guards");
    MEASURES.iter().for_each(|measure| text += &format!("{measure:>12} {:<8}", "bar"));
    let mut missed = 0;
    for (row, counts) in rows {
        text = format!("{}\n{row:32}", text.trim_end());
        for (measure, &count) in MEASURES.iter().zip(counts) {
            let verdict = judge(bounds, row, measure, count);
            missed += usize::from(verdict == Verdict::Missed);
            let mark = match verdict {
                Verdict::Within => ' ',
                Verdict::Missed => '*',
                Verdict::Above => '!',
            };
            let bar = bounds.get(&[row, measure]).map_or_else(|| "no bar".to_owned(), |bar| bar.to_string());
            text += &format!("{count:>12.4}{mark}{bar:<8}");
        }
    }
    format!("{}\n{} counts; {missed} miss their bars (*)\n", text.trim_end(), rows.len() * MEASURES.len())
}

fn judge(bounds: &Bounds, row: &str, measure: &str, count: f64) -> Verdict {
    let Some(bar) = bounds.get(&[row, measure]) else { return Verdict::Above };
    let missed = bounds.get(&[MISSED, row, measure]);
    match count {
        count if count <= bar => Verdict::Within,
        count if missed.is_some_and(|missed| count <= missed) => Verdict::Missed,
        _ => Verdict::Above,
    }
}

/// Lowers the bars of these rows, and what is told of those that are missed.
fn lower(bounds: &mut Bounds, rows: &Rows) {
    for (row, counts) in rows {
        for (measure, count) in MEASURES.iter().zip(counts) {
            // With the digits that the program and the file have.
            bounds.lower(&[row, measure], (count * ROOM * 1e4).round() / 1e4);
            let missed = [MISSED, row, measure];
            if bounds.get(&missed).is_some() {
                bounds.lower(&missed, *count);
            }
            if bounds.get(&missed) <= bounds.get(&[row, measure]) {
                bounds.remove(&missed);
            }
        }
    }
    for row in gone(bounds, rows) {
        bounds.remove(&[&row]);
        bounds.remove(&[MISSED, &row]);
    }
}

/// Returns the rows of the file that are not counted.
fn gone(bounds: &Bounds, rows: &Rows) -> Vec<String> {
    let all = bounds.names(&[]).into_iter().chain(bounds.names(&[MISSED]));
    all.filter(|row| row != MISSED && !rows.contains_key(row)).collect()
}

/// Returns what is above its bar or has none, and bars of rows that there are not.
fn complaints(rows: &Rows, bounds: &Bounds) -> Vec<String> {
    let above = rows.iter().flat_map(|(row, counts)| {
        MEASURES
            .iter()
            .zip(counts)
            .filter(move |(measure, count)| judge(bounds, row, measure, **count) == Verdict::Above)
            .map(move |(measure, count)| match bounds.get(&[row, measure]) {
                Some(bar) => format!("{row}: {measure} is {count}; its bar is {bar}"),
                None => format!("{row}: {measure} has no bar, --bless adds it"),
            })
    });
    let gone = gone(bounds, rows).into_iter().map(|row| format!("{row}: is not counted, --bless removes it"));
    above.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(counts: [f64; 4]) -> Rows {
        BTreeMap::from([("a, 1, guards".to_owned(), counts)])
    }

    /// The first bar is missed.
    fn bounds() -> Bounds {
        let text = "\"a, 1, guards\" = { fresh = 5.0, memory = 1.05, span = 1.05, calls = 1.05 }\n\
            [missed]\n\"a, 1, guards\" = { fresh = 10.0 }\n";
        Bounds::parse(PATH, text).unwrap()
    }

    #[test]
    fn a_count_above_its_bar_fails_unless_it_was_so_before() {
        let complaints = |counts| complaints(&rows(counts), &bounds());
        assert_eq!(complaints([10.0, 1.05, 1.0, 0.0]), [""; 0]);
        assert_eq!(complaints([10.1, 1.0, 1.0, 1.0]), ["a, 1, guards: fresh is 10.1; its bar is 5"]);
        assert_eq!(complaints([4.0, 1.0, 1.0, 1.06]).len(), 1);
        assert_eq!(complaints([f64::NAN; 4]).len(), 4);
        let verdict = |count| judge(&bounds(), "a, 1, guards", "fresh", count);
        assert_eq!([5.0, 5.1, 10.1].map(verdict), [Verdict::Within, Verdict::Missed, Verdict::Above]);
    }

    #[test]
    fn a_row_without_bars_and_bars_without_a_row_fail() {
        assert_eq!(complaints(&rows([0.0; 4]), &Bounds::parse(PATH, "").unwrap()).len(), 4);
        assert_eq!(complaints(&Rows::new(), &bounds()).len(), 2);
    }

    #[test]
    fn to_bless_only_lowers() {
        let lowered = |counts, names: &[&str]| {
            let mut bounds = bounds();
            lower(&mut bounds, &rows(counts));
            bounds.get(names)
        };
        let (bar, missed) = (["a, 1, guards", "fresh"], [MISSED, "a, 1, guards", "fresh"]);
        assert_eq!(lowered([11.0, 2.0, 1.0, 1.0], &bar), Some(5.0));
        assert_eq!(lowered([11.0, 2.0, 1.0, 1.0], &missed), Some(10.0));
        assert_eq!(lowered([8.0, 0.5, 1.0, 1.0], &missed), Some(8.0));
        assert_eq!(lowered([8.0, 0.5, 1.0, 1.0], &["a, 1, guards", "memory"]), Some(0.525));
        assert_eq!(lowered([4.9, 1.0, 1.0, 1.0], &missed), None);
        let mut bounds = bounds();
        lower(&mut bounds, &Rows::new());
        assert!(gone(&bounds, &Rows::new()).is_empty());
    }
}
