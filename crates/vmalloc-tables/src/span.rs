//! Spans and machines that do not fit.

use core::fmt;

/// An error of [`PageTables::new`](crate::PageTables::new).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanError {
    /// Some of its addresses are not translated by tables of this format: those between the two
    /// halves of the address space.
    NotCanonical,
    /// The CPU does not read tables of this format.
    OtherFormat,
    /// The top-level table is not in the map of all memory.
    RootOutOfReach,
    /// Entries of this format are broken before they are made, and the machine's
    /// [`forget`](crate::Machine::forget) does not reach all CPUs.
    NoBroadcast,
    /// The machine has more CPUs than [`MAX_CPUS`](crate::MAX_CPUS).
    TooManyCpus,
    /// No frames for the tables below the top level, of which the top-level entries of the
    /// span each need one.
    NoTables,
    /// No memory for what each CPU acknowledges.
    NoMemory,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotCanonical => "the span has addresses that tables of this format do not translate",
            Self::OtherFormat => "the CPU does not read tables of this format",
            Self::RootOutOfReach => "the top-level table is not in the map of all memory",
            Self::NoBroadcast => "tables of this format need CPUs that all forget at once",
            Self::TooManyCpus => "more CPUs than can be shot down",
            Self::NoTables => "out of frames for page tables",
            Self::NoMemory => "out of memory for the words of CPUs",
        })
    }
}

impl core::error::Error for SpanError {}
