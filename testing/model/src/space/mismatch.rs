//! How a space can be wrong.

use super::op::SpaceOp;
use super::wish::Wish;
use std::fmt;
use thiserror::Error;
use vmalloc::area_map::Violation;
use vmalloc::{AllocError, AreaInfo, FreeError};

/// An answer or a figure that is not legal. `got` is the space's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SpaceMismatch {
    /// An address that does not meet the request or has an owner.
    #[error("{addr:#x} is no answer to {wish:?}: {why}")]
    Illegal {
        /// The request.
        wish: Wish,
        /// The address given.
        addr: usize,
        /// The reason why it is wrong.
        why: &'static str,
    },
    /// A refusal that is not true, or an answer to a wrong request.
    #[error("{wish:?} was answered by {got:?}, not by {want}")]
    Alloc {
        /// The request.
        wish: Wish,
        /// The answer.
        got: Result<usize, AllocError>,
        /// The right answer.
        want: String,
    },
    /// Another answer to a free.
    #[error("the answer for {addr:#x} is {got:?}, not {want}")]
    Free {
        /// The address given.
        addr: usize,
        /// The answer.
        got: Result<(), FreeError>,
        /// The right answer.
        want: String,
    },
    /// Another area at an address.
    #[error("the area at {addr:#x} is {got:?}, not {want:?}")]
    Find {
        /// The address.
        addr: usize,
        /// The area found.
        got: Option<AreaInfo>,
        /// The area that is there.
        want: Option<AreaInfo>,
    },
    /// A figure that does not add up.
    #[error("{figure} is {got}, not {want}")]
    Figure {
        /// Which.
        figure: &'static str,
        /// The figure reported.
        got: u64,
        /// The figure expected.
        want: u64,
    },
    /// A broken invariant.
    #[error("verify() found {0:?}")]
    Violation(Violation),
}

/// A failed run: what was wrong, and what led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceFailure {
    /// The difference that was found.
    pub mismatch: Box<SpaceMismatch>,
    /// The operations. The last one, or the clean-up after it, showed the difference.
    pub ops: Vec<SpaceOp>,
}

/// Operations printed: the last ones.
const SHOWN: usize = 40;

impl fmt::Display for SpaceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.ops.len().saturating_sub(SHOWN);
        writeln!(f, "{}\nafter {} operations, the last of them:", self.mismatch, self.ops.len())?;
        for (index, op) in self.ops.iter().enumerate().skip(skipped) {
            writeln!(f, "{index:5}  {op:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpaceFailure {}
