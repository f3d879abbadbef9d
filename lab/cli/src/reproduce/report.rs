//! The results, as text and as JSON.

use serde::Serialize;
use std::fmt;
use vmalloc_lab::reproduce::{Claim, Outcome, Unit, Verdict};
use vmalloc_lab::table::{NONE, figure, table};

/// All results of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    /// True if every result is reproduced.
    reproduced: bool,
    /// The worst verdict of all results.
    pub(super) verdict: Verdict,
    outcomes: Vec<Outcome>,
}

impl Report {
    /// Sums up these results.
    pub(super) fn new(outcomes: Vec<Outcome>) -> Self {
        let verdict = Verdict::of_all(outcomes.iter().map(|outcome| outcome.verdict));
        Self { reproduced: verdict == Verdict::Reproduced, verdict, outcomes }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.outcomes {
            write_outcome(f, outcome)?;
        }
        let count = |verdict| self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
        write!(f, "Reproduced: {} of {}", count(Verdict::Reproduced), self.outcomes.len())?;
        match count(Verdict::Shown) {
            0 => {}
            some => write!(f, "; shown here, judged by `cargo xtask cores --check`: {some}")?,
        }
        writeln!(f)
    }
}

fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let verdict = outcome.verdict;
    let name = outcome.figure.as_str().to_uppercase();
    writeln!(f, "{name}  {}: {verdict}\n", outcome.title)?;
    write_indented(f, &claims(&outcome.claims))?;
    for table in &outcome.tables {
        writeln!(f, "\n  {}\n", table.title)?;
        write_indented(f, &self::table("lr", &table.head, table.rows.clone()))?;
    }
    writeln!(f)?;
    for note in &outcome.notes {
        write_note(f, note)?;
    }
    writeln!(f)
}

fn write_indented(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.lines().try_for_each(|line| writeln!(f, "  {line}"))
}

fn claims(claims: &[Claim]) -> String {
    let head = ["", "published", "here", "gain", "at least", ""];
    let row = |claim: &Claim| {
        let bar = claim.bar.filter(|_| claim.unit != Unit::Exact);
        let bar = bar.map_or_else(|| NONE.to_owned(), |bar| gain(claim.unit, bar));
        vec![
            claim.what.clone(),
            claim.published.clone(),
            here(claim),
            gain(claim.unit, claim.gain),
            bar,
            claim.verdict.to_string(),
        ]
    };
    table("lllrrl", &head, claims.iter().map(row).collect())
}

fn here(claim: &Claim) -> String {
    let pair = &claim.measured;
    match claim.unit {
        Unit::Exact => format!("{} / {} {}", pair.before, pair.after, pair.unit),
        _ => format!("{} → {} {}", figure(pair.before), figure(pair.after), pair.unit),
    }
}

fn gain(unit: Unit, gain: f64) -> String {
    match unit {
        Unit::PercentSaved => format!("{gain:.0} % saved"),
        Unit::Times => format!("{}×", figure(gain)),
        Unit::Exact => if gain == 1.0 { "so many" } else { "OTHERS" }.to_owned(),
    }
}

/// The width of a paragraph.
const WIDTH: usize = 110;

/// A paragraph, broken between words.
fn write_note(f: &mut fmt::Formatter<'_>, note: &str) -> fmt::Result {
    let mut line = String::from("  -");
    for word in note.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH {
            writeln!(f, "{line}")?;
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(f, "{line}")
}
