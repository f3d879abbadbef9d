//! `cargo xtask policy`: what the caching policy takes, counted and compared with its budget.

mod budget;

use crate::counts;
use crate::words::Words;
use anyhow::{Context, Result, bail, ensure};
use budget::{Budget, Verdict};
use std::collections::BTreeMap;
use std::process::Command;

pub(crate) const HELP: &str = "\
Count pages, calls and addresses of twelve loads on the caching policy

Each row is a load, the calls between two drains by age, and whether areas have guard pages: fresh pages a pair, the most
pages with memory over the most in use, the span over the most in use, and calls of the platform a pair. A pair is an
allocation and a free. The page tables only count and there is no time, so rows repeat to the last digit.

Beside each count is its bar, of docs/policy.toml. A count above its bar is marked `*` if it is no more than the file
says that it was (a bar that is missed), and else `!`, and the command fails.

  --bless  Lower the file to what was counted, and add the rows that it lacks. Nothing is raised.";

/// The counts of each load, as the program and the budget name them.
const MEASURES: [&str; 4] = ["fresh", "memory", "span", "calls"];

/// The counts of a row, in the order of [`MEASURES`].
type Counts = [f64; 4];

pub(crate) fn run(mut words: Words) -> Result<()> {
    let bless = words.has("--bless");
    words.end()?;
    let rows = count()?;
    let budget = Budget::read()?;
    if bless {
        return budget.lowered(&rows).write();
    }
    print!("{}", table(&rows, &budget));
    let complaints = budget.complaints(&rows);
    ensure!(complaints.is_empty(), "not within {}:\n{}", budget::PATH, complaints.join("\n"));
    Ok(())
}

/// Builds and runs the program that counts.
fn count() -> Result<BTreeMap<String, Counts>> {
    let output = Command::new(counts::build()?).arg("--policy").output().context("can't run the loads")?;
    if !output.status.success() {
        bail!("a load failed:\n{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout)?;
    let parse = |row: &serde_json::Value| {
        let counts = MEASURES.map(|measure| row[measure].as_f64().unwrap_or(f64::NAN));
        Some((row["row"].as_str()?.to_owned(), counts))
    };
    rows.iter().map(|row| parse(row).with_context(|| format!("{row} is no row"))).collect()
}

fn table(rows: &BTreeMap<String, Counts>, budget: &Budget) -> String {
    let mut text = format!("{:32}", "load, drain every, guards");
    MEASURES.iter().for_each(|measure| text += &format!("{measure:>12} {:<8}", "bar"));
    let mut missed = 0;
    for (row, counts) in rows {
        text = format!("{}\n{row:32}", text.trim_end());
        for (nth, count) in counts.iter().enumerate() {
            let (verdict, bar) = budget.judge(row, nth, *count);
            missed += usize::from(verdict == Verdict::Missed);
            let mark = match verdict {
                Verdict::Within => ' ',
                Verdict::Missed => '*',
                Verdict::Above => '!',
            };
            let bar = bar.map_or_else(|| "no bar".to_owned(), |bar| bar.to_string());
            text += &format!("{count:>12.4}{mark}{bar:<8}");
        }
    }
    format!("{}\n{} counts; {missed} miss their bars (*)\n", text.trim_end(), rows.len() * MEASURES.len())
}
