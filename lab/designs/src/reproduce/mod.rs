//! The five published results of Linux's allocator, measured again: the designs that they were
//! published for, and ours.
//!
//! | | published | between | claim |
//! |---|---|---|---|
//! | [`f1`] | 2018 | busy list → free list | the time of a long list of areas falls by 69 % and more |
//! | [`f2`] | 2019 | lists → augmented tree | all tests take a 3.35th and less |
//! | [`f3`] | 2015 | blocks at the head → at the tail of their queue | so many blocks are made, and so many come back |
//! | [`f4`] | 2016 | one lock over a purge → none | the worst wake-up is 4 to 9 times earlier |
//! | [`f5`] | 2024 | one tree → a node for each CPU | 64 threads wait for locks 16.5 % of their time, not 93 % |
//!
//! Times are those of the address part in a program: other machines, and no pages. What can be
//! compared are ratios, which are taken within one run, and counts. On a machine that does much
//! besides, some can't be compared at all: that is a verdict of its own ([`Verdict::TooBusy`]).

pub mod f1;
pub mod f2;
pub mod f3;
pub mod f4;
pub mod f5;
mod judge;
mod measure;

use judge::Patience;
pub(crate) use judge::{Clock, Rule, Sample};

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A published result.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum Figure {
    /// Free list instead of busy-list scan.
    F1,
    /// Augmented tree.
    F2,
    /// Blocks of short mappings.
    F3,
    /// Purge without a held lock.
    F4,
    /// Nodes.
    F5,
}

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Under two minutes for all five.
    Quick,
    /// Some minutes for each.
    Full,
}

impl Effort {
    /// How often a figure is measured, and again where a claim does not hold.
    fn patience(self, least: usize) -> Patience {
        Patience { least, most: 7, time: Duration::from_secs(self.choose(12, 120)) }
    }

    /// One of two.
    pub(crate) fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

impl Figure {
    /// All five.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The published result.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::F1 => "free list instead of a scan of busy areas (2018)",
            Self::F2 => "augmented tree instead of lists (2019)",
            Self::F3 => "blocks of short mappings at the tail of their queue (2015)",
            Self::F4 => "purge without a held lock (2016)",
            Self::F5 => "a node for each CPU instead of one tree (2024)",
        }
    }

    /// How many steps its run tells of.
    #[must_use]
    pub fn steps(self, effort: Effort) -> u64 {
        match self {
            Self::F1 => f1::steps(effort),
            Self::F2 => f2::steps(effort),
            Self::F3 => f3::steps(),
            Self::F4 => f4::steps(effort),
            Self::F5 => f5::steps(effort),
        }
    }

    /// Measures it.
    ///
    /// # Panics
    /// When a design refuses what it should not.
    #[must_use]
    pub fn run(self, effort: Effort, progress: &Progress) -> Outcome {
        match self {
            Self::F1 => f1::run(effort, progress),
            Self::F2 => f2::run(effort, progress),
            Self::F3 => f3::run(effort, progress),
            Self::F4 => f4::run(effort, progress),
            Self::F5 => f5::run(effort, progress),
        }
    }
}

/// How far a run has come.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// One step more is done. (Relaxed, as below: it is only shown.)
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Steps done.
    pub fn done(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A result, measured again.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Which.
    pub figure: Figure,
    /// The published result.
    pub title: &'static str,
    /// How much was run.
    pub effort: Effort,
    /// True if every claim that has a bar passes it.
    pub reproduced: bool,
    /// The worst verdict of its claims.
    pub verdict: Verdict,
    /// Published and measured, side by side.
    pub claims: Vec<Claim>,
    /// Everything measured.
    pub tables: Vec<Table>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(
        figure: Figure,
        effort: Effort,
        claims: Vec<Claim>,
        tables: Vec<Table>,
        notes: &[&str],
    ) -> Self {
        let verdict = Verdict::of_all(claims.iter().map(|claim| claim.verdict));
        let reproduced = verdict == Verdict::Reproduced;
        let notes = notes.iter().map(|&note| note.to_owned()).collect();
        Self { figure, title: figure.title(), effort, reproduced, verdict, claims, tables, notes }
    }
}

/// A pair that was published, beside the same pair measured.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The pair that is compared.
    pub what: String,
    /// The published pair and its ratio.
    pub published: String,
    /// The measured pair.
    pub measured: Pair,
    /// The gain from the older design to the newer, in `unit`.
    pub gain: f64,
    /// The unit of the gain.
    pub unit: Unit,
    /// The least gain that reproduces the claim.
    pub bar: Option<f64>,
    /// The comparison of gain and bar.
    pub verdict: Verdict,
}

/// Before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// With the older design.
    pub before: f64,
    /// With the newer one.
    pub after: f64,
    /// The unit of both.
    pub unit: &'static str,
}

/// The unit of a gain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Hundredths of the time before that are saved.
    PercentSaved,
    /// Before over after.
    Times,
    /// 1 if both counts are as published, 0 if not.
    Exact,
}

/// The outcome of a claim on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Display)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    #[strum(serialize = "reproduced")]
    Reproduced,
    /// It does not.
    #[strum(serialize = "NOT REPRODUCED")]
    NotReproduced,
    /// The machine did too much besides to say.
    #[strum(serialize = "too busy to judge")]
    TooBusy,
    /// It has no bar: it is shown.
    #[strum(serialize = "–")]
    Shown,
}

impl Verdict {
    /// Returns the verdict over many: what is refuted counts most, and then what can't be judged.
    /// Where nothing has a bar, all is shown.
    #[must_use]
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<_> = verdicts.into_iter().collect();
        let order = [Self::NotReproduced, Self::TooBusy, Self::Reproduced];
        order.into_iter().find(|worst| all.contains(worst)).unwrap_or(Self::Shown)
    }

    /// Returns true unless more samples could change it for the better.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Reproduced | Self::Shown)
    }
}

impl Unit {
    /// Returns the gain from one value to another.
    pub(crate) fn gain(self, before: f64, after: f64) -> f64 {
        match self {
            Self::PercentSaved => 100.0 * (1.0 - after / before),
            Self::Times | Self::Exact => before / after,
        }
    }
}

/// Samples of both designs, and what is to be shown by them.
pub(crate) struct Measured<'a> {
    pub(crate) what: String,
    pub(crate) published: &'a str,
    pub(crate) before: Vec<Sample>,
    pub(crate) after: Vec<Sample>,
    /// The unit of the samples.
    pub(crate) unit: &'static str,
    pub(crate) clock: Clock,
    pub(crate) middle: fn(&[f64]) -> f64,
}

impl Measured<'_> {
    /// A claim with so much to be gained, or one that is only shown.
    pub(crate) fn claim(self, unit: Unit, bar: Option<f64>) -> Claim {
        let gain = |before, after| unit.gain(before, after);
        let rule = Rule { clock: self.clock, middle: self.middle, gain: &gain, bar: bar.unwrap_or(0.0) };
        let [before, after] = rule.middles(&self.before, &self.after);
        let judged = || rule.judge(&self.before, &self.after);
        Claim {
            what: self.what,
            published: self.published.to_owned(),
            measured: Pair { before, after, unit: self.unit },
            gain: unit.gain(before, after),
            unit,
            bar,
            verdict: bar.map_or(Verdict::Shown, |_| judged()),
        }
    }
}

impl Claim {
    /// A claim about two counts: what they are off by at most.
    pub(crate) fn of_counts(what: String, published: [u64; 2], measured: [u64; 2], off_by: [u64; 2]) -> Self {
        let near = |index: usize| measured[index].abs_diff(published[index]) <= off_by[index];
        let holds = near(0) && near(1);
        let pair = Pair { before: measured[0] as f64, after: measured[1] as f64, unit: "made, freed" };
        let allowed =
            if off_by == [0, 0] { " exact".to_owned() } else { format!(" ±{}, ±{}", off_by[0], off_by[1]) };
        Self {
            what,
            published: format!("{} / {}{allowed}", published[0], published[1]),
            measured: pair,
            gain: f64::from(u8::from(holds)),
            unit: Unit::Exact,
            bar: Some(1.0),
            verdict: if holds { Verdict::Reproduced } else { Verdict::NotReproduced },
        }
    }
}

/// Figures for people.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The heads of the columns; the first column has names.
    pub head: Vec<String>,
    /// As many cells each.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == head.len()));
        Self { title: title.to_owned(), head: head.iter().map(|&cell| cell.to_owned()).collect(), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    fn claim(before: f64, after: f64, disturbed: bool, unit: Unit, bar: Option<f64>) -> Claim {
        let samples = |value| vec![Sample { value, disturbed }; 3];
        let (before, after) = (samples(before), samples(after));
        let what = String::new();
        Measured { what, published: "", before, after, unit: "µs", clock: Clock::Wall, middle: median }
            .claim(unit, bar)
    }

    #[test]
    fn claim_holds_at_its_bar() {
        let verdict = |bar| claim(10.0, 2.5, false, Unit::Times, bar).verdict;
        assert_eq!(
            [Some(4.0), Some(4.1), None].map(verdict),
            [Verdict::Reproduced, Verdict::NotReproduced, Verdict::Shown]
        );
        assert_eq!(claim(10.0, 2.5, false, Unit::Times, None).gain, 4.0);
        let saved = claim(10.0, 3.0, false, Unit::PercentSaved, Some(69.0));
        assert_eq!((saved.gain.round(), saved.verdict), (70.0, Verdict::Reproduced));
    }

    #[test]
    fn counts_hold_to_the_digit_unless_told_otherwise() {
        let verdict =
            |measured, off_by| Claim::of_counts(String::new(), [993, 992], measured, off_by).verdict;
        assert_eq!(verdict([993, 992], [0, 0]), Verdict::Reproduced);
        assert_eq!(verdict([993, 991], [0, 0]), Verdict::NotReproduced);
        assert_eq!(verdict([994, 991], [1, 1]), Verdict::Reproduced);
    }

    #[test]
    fn one_failed_claim_fails_the_figure_and_one_that_cannot_be_judged_does_not() {
        let outcome = |claims| Outcome::new(Figure::F1, Effort::Quick, claims, vec![], &[]);
        let holds = || claim(4.0, 2.0, false, Unit::Times, Some(2.0));
        let fails = |disturbed| claim(4.0, 2.0, disturbed, Unit::Times, Some(2.1));
        let both = |claims| {
            let outcome: Outcome = outcome(claims);
            (outcome.reproduced, outcome.verdict)
        };
        assert_eq!(both(vec![holds(), holds()]), (true, Verdict::Reproduced));
        assert_eq!(both(vec![holds(), fails(true)]), (false, Verdict::TooBusy));
        assert_eq!(both(vec![fails(true), fails(false), holds()]), (false, Verdict::NotReproduced));
        let shown = || claim(4.0, 2.0, false, Unit::Times, None);
        assert_eq!(both(vec![shown()]), (false, Verdict::Shown));
        assert_eq!(both(vec![shown(), holds()]), (true, Verdict::Reproduced));
    }
}
