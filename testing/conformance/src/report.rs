//! Findings of a run.

use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The promise, from the contract.
    pub promised: String,
    /// The answer or memory that breaks it.
    pub seen: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promised: {}\n    seen: {}", self.promised, self.seen)
    }
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Promises that were kept.
    pub kept: Vec<String>,
    /// Promises that were not kept.
    pub failures: Vec<Failure>,
    /// Facts that the [`Look`](crate::Look) could not see, so that no check depends on them.
    pub unseen: BTreeSet<&'static str>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failures.iter().try_for_each(|failure| writeln!(f, "{failure}"))?;
        self.unseen.iter().try_for_each(|fact| writeln!(f, "not seen: {fact}"))?;
        write!(f, "{} promises kept, {} broken", self.kept.len(), self.failures.len())
    }
}

/// A platform broke promises. `unwrap` prints all of them.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Breaches(pub Report);

impl fmt::Debug for Breaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the platform breaks its contract\n{}", self.0)
    }
}
