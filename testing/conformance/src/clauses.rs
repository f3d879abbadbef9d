//! Promises of the contract, each with its check.

mod constants;
mod contents;
mod discard;
mod frames;
mod locks;
mod memory;
mod nofault;
mod protect;
mod relocate;
mod translate;

pub(crate) use constants::constants;
pub use contents::Contents;
pub(crate) use contents::contents;
pub(crate) use discard::discard;
pub(crate) use frames::{frames, supply};
pub(crate) use locks::{locks, threads};
pub(crate) use memory::memory;
pub(crate) use nofault::read_nofault;
pub(crate) use protect::protect;
pub(crate) use relocate::relocate;
pub(crate) use translate::translate;

use crate::bench::{Bench, Verdict};

/// A promise, and how it is checked on a platform just made.
pub(crate) struct Clause<P> {
    pub(crate) promise: &'static str,
    pub(crate) check: fn(&Bench<'_, P>) -> Verdict,
}
