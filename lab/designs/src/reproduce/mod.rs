//! The five published results of Linux's allocator, measured again: the designs that they were
//! published for, and ours.
//!
//! | | published | between | claim, and what is judged here |
//! |---|---|---|---|
//! | [`f1`] | 2018 | busy list → free list | a long list of areas: 69 % of the time is saved; of what a search looks at |
//! | [`f2`] | 2019 | lists → augmented tree | all tests take a 3.35th; of what searches look at |
//! | [`f3`] | 2015 | blocks at the head → at the tail of their queue | so many blocks are made, and so many come back |
//! | [`f4`] | 2016 | one lock over a purge → none | an area is given back under a hold; the worst wake-up is 4 to 9 times earlier |
//! | [`f5`] | 2024 | one tree → a node for each CPU | 64 threads wait for locks 16.5 % of their time, not 93 % |
//!
//! Counts are judged, which are the same on a busy machine, and wake-ups by a timer of the thread's
//! own. Times stand beside them: those of the address part in a program, on other
//! machines, without pages.

pub mod f1;
pub mod f2;
pub mod f3;
pub mod f4;
pub mod f5;
mod measure;

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// It has no bar: it is shown.
    #[strum(serialize = "–")]
    Shown,
}

impl Verdict {
    /// Returns the verdict over many: what is refuted counts most. Where nothing has a bar, all is
    /// shown.
    #[must_use]
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<_> = verdicts.into_iter().collect();
        let order = [Self::NotReproduced, Self::Reproduced];
        order.into_iter().find(|worst| all.contains(worst)).unwrap_or(Self::Shown)
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

impl Claim {
    /// Compares `[before, after]` in that unit, with so much to be gained, or to be shown alone.
    pub(crate) fn of(
        what: String,
        published: &str,
        [before, after]: [f64; 2],
        of: &'static str,
        unit: Unit,
        bar: Option<f64>,
    ) -> Self {
        let gain = unit.gain(before, after);
        let judge = |bar| if gain >= bar { Verdict::Reproduced } else { Verdict::NotReproduced };
        let verdict = bar.map_or(Verdict::Shown, judge);
        let measured = Pair { before, after, unit: of };
        Self { what, published: published.to_owned(), measured, gain, unit, bar, verdict }
    }

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

    fn claim(before: f64, after: f64, unit: Unit, bar: Option<f64>) -> Claim {
        Claim::of(String::new(), "", [before, after], "µs", unit, bar)
    }

    #[test]
    fn claim_holds_at_its_bar() {
        let verdict = |bar| claim(10.0, 2.5, Unit::Times, bar).verdict;
        assert_eq!(
            [Some(4.0), Some(4.1), None].map(verdict),
            [Verdict::Reproduced, Verdict::NotReproduced, Verdict::Shown]
        );
        assert_eq!(claim(10.0, 2.5, Unit::Times, None).gain, 4.0);
        let saved = claim(10.0, 3.0, Unit::PercentSaved, Some(69.0));
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
    fn one_failed_claim_fails_the_figure() {
        let holds = || claim(4.0, 2.0, Unit::Times, Some(2.0));
        let fails = || claim(4.0, 2.0, Unit::Times, Some(2.1));
        let shown = || claim(4.0, 2.0, Unit::Times, None);
        let both = |claims| {
            let outcome = Outcome::new(Figure::F1, Effort::Quick, claims, vec![], &[]);
            (outcome.reproduced, outcome.verdict)
        };
        assert_eq!(both(vec![holds(), holds()]), (true, Verdict::Reproduced));
        assert_eq!(both(vec![holds(), fails(), shown()]), (false, Verdict::NotReproduced));
        assert_eq!(both(vec![shown()]), (false, Verdict::Shown));
        assert_eq!(both(vec![shown(), holds()]), (true, Verdict::Reproduced));
    }
}
