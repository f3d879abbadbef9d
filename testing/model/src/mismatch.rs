//! How an implementation can differ from the model.

use crate::ask::Ask;
use thiserror::Error;
use vmalloc_map::{FitError, NoArea, PageRange};
use vmalloc_map::{ResizeError, Segment, Violation};
use vmalloc_percpu::CongruentError;

/// The answer of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Of a placement.
    Alloc(Result<PageRange, FitError>),
    /// Of an exact claim.
    AllocAt(Result<(), FitError>),
    /// Of a free, retirement, revival or release.
    Change(Result<PageRange, NoArea>),
    /// Of a change in place.
    Resize(Result<PageRange, ResizeError>),
    /// Of a lookup.
    Find(Option<PageRange>),
}

/// A difference from the model. `got` is the implementation's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Another answer.
    #[error("the answer is {got:?}, not {want:?}")]
    Outcome {
        /// The answer.
        got: Outcome,
        /// The model's; boxed, since two answers are large for an error.
        want: Box<Outcome>,
    },
    /// An area that does not meet the request, or is not free.
    #[error("{got:?} is no answer to {ask:?}")]
    Illegal {
        /// The request.
        ask: Ask,
        /// The area given.
        got: PageRange,
    },
    /// Another segment at a page.
    #[error("the segment at page {page:#x} is {got:?}, not {want:?}")]
    Segment {
        /// The page.
        page: u64,
        /// The segment reported.
        got: Option<Segment>,
        /// The model's.
        want: Option<Segment>,
    },
    /// Another area at a page.
    #[error("the busy area at page {page:#x} is {got:?}, not {want:?}")]
    Find {
        /// The page.
        page: u64,
        /// The area found.
        got: Option<PageRange>,
        /// The model's.
        want: Option<PageRange>,
    },
    /// Another base of congruent areas.
    #[error("the base of the group is {got:?}, not {want:?}")]
    Base {
        /// The base given, or why there was none.
        got: Result<u64, CongruentError>,
        /// The model's.
        want: Option<u64>,
    },
    /// The walk differs from here on.
    #[error("segment {index} of the walk is {got:?}, not {want:?}")]
    Walk {
        /// The first that differs.
        index: usize,
        /// The segment there.
        got: Option<Segment>,
        /// The model's.
        want: Option<Segment>,
    },
    /// Another figure.
    #[error("{figure} is {got}, not {want}")]
    Figure {
        /// Which.
        figure: &'static str,
        /// The figure reported.
        got: u64,
        /// The model's.
        want: u64,
    },
    /// A broken invariant.
    #[error("verify() found {0:?}")]
    Violation(Violation),
    /// Metadata that did not come back.
    #[error("{bytes} bytes of metadata at the end, more than the {allowed} allowed")]
    Leak {
        /// At the end.
        bytes: usize,
        /// At the start, and what the peak explains.
        allowed: usize,
    },
    /// A panic.
    #[error("panicked: {0}")]
    Panicked(String),
}
