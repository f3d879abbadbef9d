//! Sums of a node over all ranges below it. The balancing calls this and never looks inside.

use std::fmt::Debug;
use vmalloc::PageRange;

/// A sum over a node and its two subtrees.
pub(in crate::designs) trait Augment {
    /// The sum in each node.
    type Sum: Copy + Eq + Debug + Send;
    /// That of no ranges.
    const EMPTY: Self::Sum;

    /// That of a range, of those left and of those right of it.
    fn sum(own: PageRange, left: Self::Sum, right: Self::Sum) -> Self::Sum;
}

/// Nothing.
#[derive(Debug)]
pub(in crate::designs) struct Plain;

impl Augment for Plain {
    type Sum = ();
    const EMPTY: () = ();

    #[inline]
    fn sum(_own: PageRange, _left: (), _right: ()) {}
}

/// The pages of the largest range.
#[derive(Debug)]
pub(in crate::designs) struct Largest;

impl Augment for Largest {
    type Sum = u64;
    const EMPTY: u64 = 0;

    #[inline]
    fn sum(own: PageRange, left: u64, right: u64) -> u64 {
        own.len().max(left).max(right)
    }
}
