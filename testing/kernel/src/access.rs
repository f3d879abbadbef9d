//! Accesses that may fault, and tell: what all architectures share.

pub(crate) use crate::arch::access::{CODE, call, read, write};
use crate::cpu;

/// An access that faulted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) addr: usize,
    /// Bits below: those of x86-64, into which the others' are put.
    pub(crate) error: u64,
}

/// A page was there and refused; it was written; it was executed.
pub(crate) const REFUSED: u64 = 1;
pub(crate) const WRITE: u64 = 2;
pub(crate) const EXECUTE: u64 = 16;

/// Returns the fault of the access that is over, unless where to go on is still `untouched`.
pub(crate) fn result(untouched: u64) -> Result<(), Fault> {
    if untouched != 0 {
        return Ok(());
    }
    // SAFETY: the access is over.
    let local = unsafe { cpu::local() };
    Err(Fault { addr: local.fault_addr as usize, error: local.fault_error })
}
