//! What a run is judged by.

use crate::load::Outcome;
use vmalloc_machine::LockStats;

/// The types that the lock of all free ranges protects, by the beginnings of their names: ours, the
/// heap of `nodes`, and the whole of the older designs.
const MAPS: [&str; 3] = ["Mapped", "Augmented", "Held<"];
/// Those that the locks of one node protect: ours, and the three of `nodes`.
const NODES: [&str; 4] = ["Node", "Pools", "Tree<", "Stack<"];

impl Outcome {
    /// Milliseconds from the first to the last.
    pub(crate) fn ms(&self) -> f64 {
        self.report.time as f64 / 1e9
    }

    /// Divides a count by the number of pairs.
    pub(crate) fn a_pair(&self, count: u64) -> f64 {
        count as f64 / self.load.pairs() as f64
    }

    /// How many hundredths of the time that CPUs had threads they waited for spin locks.
    pub(crate) fn spinning(&self) -> f64 {
        self.of_busy(self.report.spun)
    }

    /// How many hundredths of the time that CPUs had threads something took.
    pub(crate) fn of_busy(&self, time: u64) -> f64 {
        100.0 * time as f64 / self.report.busy as f64
    }

    /// How many hundredths of the time all threads of a CPU slept, for a purge.
    pub(crate) fn idle(&self) -> f64 {
        100.0 * self.report.idle as f64 / (self.report.idle + self.report.busy) as f64
    }

    /// Locks of the map, a pair.
    pub(crate) fn map_locks(&self) -> f64 {
        self.a_pair(self.locks(&MAPS).0)
    }

    /// How long the lock of a node is held on average, in nanoseconds.
    pub(crate) fn node_hold(&self) -> f64 {
        let (taken, hold) = self.locks(&NODES);
        hold as f64 / 1e3 / taken.max(1) as f64
    }

    /// The locks of these types that were taken, and how long they were held.
    fn locks(&self, types: &[&str]) -> (u64, u64) {
        let is_meant = |name: &str| types.iter().any(|it| name.starts_with(it));
        let of = self.report.locks().into_iter().filter(|(name, _)| is_meant(name));
        of.fold((0, 0), |(taken, hold), (_, stats): (_, LockStats)| (taken + stats.taken, hold + stats.hold))
    }
}
