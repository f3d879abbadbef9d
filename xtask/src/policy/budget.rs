//! The budget of the loads: `docs/policy.toml`.

use super::{Counts, MEASURES};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

pub(super) const PATH: &str = "docs/policy.toml";
const HEAD: &str = "\
# Bars of what the caching policy takes: `cargo xtask policy` counts it, and fails if a count is above its bar. A bar is
# 1.05 of the least that was counted, or of the best setting of a study that switched parts of the policy off one by one
# (not the pools, without which no node serves an allocation). Bars that are missed are listed at the end, each with what
# was counted: a person enters one, with a reason in the commit message. Numbers only fall:
# `cargo xtask policy --bless` lowers them, and `cargo xtask ratchet` holds it.

";
/// A bar over what was counted when it was set.
const ROOM: f64 = 1.05;

/// A bar, and the count that is listed as above it, if one is.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Limit {
    bar: f64,
    missed: Option<f64>,
}

/// The name of the list of missed bars, which no row has.
const MISSED: &str = "missed";

/// The numbers of each row, by what they count.
type Rows = BTreeMap<String, BTreeMap<String, f64>>;

/// The limits of each row, in the order of [`MEASURES`].
#[derive(PartialEq, Debug, Default)]
pub(super) struct Budget(BTreeMap<String, [Limit; 4]>);

/// What a count is against its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Within,
    /// Above its bar, but no more than it was.
    Missed,
    /// More than it was, and above its bar; or without one.
    Above,
}

impl Limit {
    fn of(count: f64) -> Self {
        Self { bar: rounded(count * ROOM), missed: None }
    }

    fn lowered(self, count: f64) -> Self {
        let bar = self.bar.min(Self::of(count).bar);
        Self { bar, missed: self.missed.map(|missed| missed.min(count)).filter(|&missed| missed > bar) }
    }

    fn judge(self, count: f64) -> Verdict {
        match count {
            count if count <= self.bar => Verdict::Within,
            count if self.missed.is_some_and(|missed| count <= missed) => Verdict::Missed,
            _ => Verdict::Above,
        }
    }
}

/// Returns a number with the digits that the program and the file have.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

impl Budget {
    /// Reads the file. Without one there is no limit.
    pub(super) fn read() -> Result<Self> {
        if !fs::exists(PATH).context(PATH)? {
            return Ok(Self::default());
        }
        Self::parse(&fs::read_to_string(PATH).context(PATH)?).context(PATH)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut table: toml::Table = toml::from_str(text)?;
        let missed: Rows = table.remove(MISSED).map_or(Ok(Rows::new()), toml::Value::try_into)?;
        let bars: Rows = table.try_into()?;
        ensure!(missed.keys().all(|row| bars.contains_key(row)), "a missed bar is none of a row");
        let limits = |(row, bars): (String, BTreeMap<String, f64>)| {
            let missed = missed.get(&row);
            let limit = |measure: &str| {
                let bar = *bars.get(measure).with_context(|| format!("{row} has no {measure}"))?;
                anyhow::Ok(Limit { bar, missed: missed.and_then(|counts| counts.get(measure)).copied() })
            };
            let [fresh, memory, span, calls] = MEASURES.map(limit);
            anyhow::Ok((row, [fresh?, memory?, span?, calls?]))
        };
        Ok(Self(bars.into_iter().map(limits).collect::<Result<_>>()?))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        self.list(&mut text, |limit| Some(limit.bar));
        let _ = write!(text, "\n[{MISSED}]\n");
        self.list(&mut text, |limit| limit.missed);
        text
    }

    /// Writes the numbers of all rows that have some.
    fn list(&self, text: &mut String, number: impl Fn(&Limit) -> Option<f64>) {
        for (row, limits) in &self.0 {
            let named = |(measure, limit)| Some(format!("{measure} = {:?}", number(limit)?));
            let numbers: Vec<_> = MEASURES.into_iter().zip(limits).filter_map(named).collect();
            if !numbers.is_empty() {
                let _ = writeln!(text, "{row:?} = {{ {} }}", numbers.join(", "));
            }
        }
    }

    pub(super) fn write(&self) -> Result<()> {
        fs::write(PATH, self.text()).context(PATH)
    }

    /// Returns the limits of these rows, none of which is above this one's.
    pub(super) fn lowered(&self, rows: &BTreeMap<String, Counts>) -> Self {
        let lower = |(row, counts): (&String, &Counts)| {
            let mut limits = counts.map(Limit::of);
            if let Some(known) = self.0.get(row) {
                let both = limits.iter_mut().zip(known).zip(counts);
                both.for_each(|((limit, known), &count)| *limit = known.lowered(count));
            }
            (row.clone(), limits)
        };
        Self(rows.iter().map(lower).collect())
    }

    /// Judges the `nth` count of a row. Returns its bar as well.
    pub(super) fn judge(&self, row: &str, nth: usize, count: f64) -> (Verdict, Option<f64>) {
        let limit = self.0.get(row).map(|limits| limits[nth]);
        (limit.map_or(Verdict::Above, |limit| limit.judge(count)), limit.map(|limit| limit.bar))
    }

    /// Returns what is above its limits, rows that have none, and limits of rows that there are not.
    pub(super) fn complaints(&self, rows: &BTreeMap<String, Counts>) -> Vec<String> {
        let mut complaints = Vec::new();
        for (row, counts) in rows {
            let Some(limits) = self.0.get(row) else {
                complaints.push(format!("{row}: has no limits, --bless adds them"));
                continue;
            };
            for ((measure, limit), &count) in MEASURES.iter().zip(limits).zip(counts) {
                if limit.judge(count) == Verdict::Above {
                    complaints.push(format!("{row}: {measure} is {count}; its bar is {}", limit.bar));
                }
            }
        }
        let gone = self.0.keys().filter(|row| !rows.contains_key(*row));
        complaints.extend(gone.map(|row| format!("{row}: is counted no more, --bless removes it")));
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(counts: Counts) -> BTreeMap<String, Counts> {
        BTreeMap::from([("a, 1, guards".to_owned(), counts)])
    }

    /// The first bar is missed.
    fn budget() -> Budget {
        let [missed, met] = [(5.0, Some(10.0)), (1.05, None)].map(|(bar, missed)| Limit { bar, missed });
        let limits = [missed, met, met, met];
        Budget(BTreeMap::from([("a, 1, guards".to_owned(), limits)]))
    }

    #[test]
    fn a_count_above_its_bar_fails_unless_it_was_so_before() {
        let complaints = |counts| budget().complaints(&rows(counts));
        assert_eq!(complaints([10.0, 1.05, 1.0, 0.0]), [""; 0]);
        assert_eq!(complaints([10.1, 1.0, 1.0, 1.0]), ["a, 1, guards: fresh is 10.1; its bar is 5"]);
        assert_eq!(complaints([4.0, 1.0, 1.0, 1.06]).len(), 1);
        assert_eq!(complaints([f64::NAN; 4]).len(), 4);
        let verdict = |count| budget().judge("a, 1, guards", 0, count).0;
        assert_eq!([5.0, 5.1, 10.1].map(verdict), [Verdict::Within, Verdict::Missed, Verdict::Above]);
    }

    #[test]
    fn a_row_without_limits_and_limits_without_a_row_fail() {
        assert_eq!(Budget::default().complaints(&rows([0.0; 4])).len(), 1);
        assert_eq!(budget().complaints(&BTreeMap::new()).len(), 1);
    }

    #[test]
    fn to_bless_only_lowers() {
        assert_eq!(budget().lowered(&rows([11.0, 2.0, 1.0, 1.0])), budget());
        let lower = budget().lowered(&rows([8.0, 0.5, 1.0, 1.0]));
        assert_eq!(lower.0["a, 1, guards"][0], Limit { bar: 5.0, missed: Some(8.0) });
        assert_eq!(lower.0["a, 1, guards"][1], Limit { bar: 0.525, missed: None });
        let met = budget().lowered(&rows([4.9, 1.0, 1.0, 1.0]));
        assert_eq!(met.0["a, 1, guards"][0], Limit { bar: 5.0, missed: None });
        assert_eq!(budget().lowered(&BTreeMap::new()), Budget::default());
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Budget::parse(&budget().text()).ok(), Some(budget()));
        assert!(Budget::parse("\"a\" = { fresh = 1.0 }").is_err());
        assert!(Budget::parse("[missed]\n\"a\" = { fresh = 1.0 }").is_err());
    }
}
