//! A program that shows a difference, cut down to what is needed.

use crate::mismatch::Mismatch;
use crate::op::Op;
use std::error::Error;
use std::fmt;

/// A failed run. Its text has all that is needed to bring it back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    profile: &'static str,
    seed: Option<u64>,
    /// Operations generated until the difference showed.
    generated: usize,
    ops: Vec<Op>,
    mismatch: Box<Mismatch>,
}

/// Operations re-run in all, at most, to shrink one failure: some seconds.
const SHRINK_BUDGET: usize = 1_000_000;

/// Operations printed: the last ones, when there are more.
const SHOWN: usize = 60;

impl Failure {
    /// Returns a failure: the last of `ops`, or the clean-up after it, showed `mismatch`.
    pub(crate) fn new(profile: &'static str, ops: Vec<Op>, mismatch: Mismatch) -> Self {
        Self { profile, seed: None, generated: ops.len(), ops, mismatch: Box::new(mismatch) }
    }

    pub(crate) const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the difference that the shrunk program shows.
    pub const fn mismatch(&self) -> &Mismatch {
        &self.mismatch
    }

    /// Returns the shrunk program.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Leaves out operations, long runs of them first, as long as `rerun` still reports a
    /// difference.
    pub(crate) fn shrink(mut self, rerun: impl Fn(&[Op]) -> Option<(usize, Mismatch)>) -> Self {
        let mut budget = SHRINK_BUDGET;
        let mut chunk = self.ops.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.ops.len() && budget >= self.ops.len() {
                budget -= self.ops.len();
                if !self.keep_if_failing(at..(at + chunk).min(self.ops.len()), &rerun) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        self
    }

    fn keep_if_failing(
        &mut self,
        cut: std::ops::Range<usize>,
        rerun: impl Fn(&[Op]) -> Option<(usize, Mismatch)>,
    ) -> bool {
        let mut fewer = self.ops.clone();
        fewer.drain(cut);
        let Some((index, mismatch)) = rerun(&fewer) else { return false };
        fewer.truncate(index + 1);
        (self.ops, self.mismatch) = (fewer, Box::new(mismatch));
        true
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, generated, ops, mismatch, .. } = self;
        writeln!(f, "{mismatch}")?;
        write!(f, "profile {profile}, after {generated} operations")?;
        if let Some(seed) = self.seed {
            write!(f, "; again with VMALLOC_SEED={seed:#x}")?;
        }
        let skipped = ops.len().saturating_sub(SHOWN);
        writeln!(f, "; shrunk to {}, the last {}:", ops.len(), ops.len() - skipped)?;
        for (index, op) in ops.iter().enumerate().skip(skipped) {
            writeln!(f, "{index:5}  {op:?}")?;
        }
        Ok(())
    }
}

impl Error for Failure {}
