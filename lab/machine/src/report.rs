//! What a run took.

use crate::Picos;
use crate::sites::{Place, Sites};
use std::collections::BTreeMap;

/// Cache lines that passed from one CPU to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineStats {
    /// How many.
    pub passed: u64,
    /// The time that CPUs lost to them.
    pub lost: Picos,
    /// Of that, the time in which a line passed to others first.
    pub queued: Picos,
}

impl LineStats {
    pub(crate) fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.lost += more.lost;
        self.queued += more.queued;
    }
}

/// Counts of a lock, or of all with the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockStats {
    /// How often it was taken.
    pub taken: u64,
    /// Of those, how often it was not free.
    pub waited: u64,
    /// Tries that found it held.
    pub refused: u64,
    /// The sum of all waits.
    pub wait: Picos,
    /// The longest.
    pub wait_max: Picos,
    /// The sum of all holds.
    pub hold: Picos,
    /// The longest.
    pub hold_max: Picos,
}

impl LockStats {
    fn add(&mut self, more: &Self) {
        self.taken += more.taken;
        self.waited += more.waited;
        self.refused += more.refused;
        self.wait += more.wait;
        self.wait_max = self.wait_max.max(more.wait_max);
        self.hold += more.hold;
        self.hold_max = self.hold_max.max(more.hold_max);
    }
}

/// The times and counts of a run. Sums are those of all CPUs.
#[derive(Debug)]
pub struct Report {
    /// From the start to the end of the last thread.
    pub time: Picos,
    /// The time in which CPUs had a thread, each until its last one ended.
    pub busy: Picos,
    /// The time in which they had none, while one of theirs slept.
    pub idle: Picos,
    /// The part of `busy` in which they waited for spin locks.
    pub spun: Picos,
    /// Basic blocks.
    pub blocks: u64,
    /// The end of the highest area that was used, in pages.
    pub highest: u64,
    /// How often the machine went from one thread to another.
    pub switches: u64,
    /// Lines that passed.
    pub lines: LineStats,
    pub(crate) sites: Sites,
}

impl Report {
    /// Returns the counts of locks by the type of what they protect, with those first that were
    /// waited for longest.
    #[must_use]
    pub fn locks(&self) -> Vec<(String, LockStats)> {
        self.locks_by(Place::guarded)
    }

    /// Returns the counts of locks by the line of the source that takes them.
    #[must_use]
    pub fn lock_sites(&self) -> Vec<(String, LockStats)> {
        self.locks_by(|place| format!("{}: {}", place.guarded(), place.lines()))
    }

    fn locks_by(&self, name: impl Fn(&Place) -> String) -> Vec<(String, LockStats)> {
        let mut named: BTreeMap<String, LockStats> = BTreeMap::new();
        for site in self.sites.iter().filter(|site| site.lock.taken + site.lock.refused > 0) {
            named.entry(name(&site.place())).or_default().add(&site.lock);
        }
        let mut all: Vec<_> = named.into_iter().collect();
        all.sort_by_key(|(_, stats)| std::cmp::Reverse((stats.wait, stats.taken)));
        all
    }

    /// Returns the lines of the source that lost most to cache lines, those first.
    #[must_use]
    pub fn line_sites(&self) -> Vec<(String, LineStats)> {
        let mut named: BTreeMap<String, LineStats> = BTreeMap::new();
        for site in self.sites.iter().filter(|site| site.lines.passed > 0) {
            named.entry(site.place().lines()).or_default().add(site.lines);
        }
        let mut all: Vec<_> = named.into_iter().collect();
        all.sort_by_key(|(_, stats)| std::cmp::Reverse(stats.lost));
        all
    }
}
