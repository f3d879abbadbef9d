//! What a platform call runs into.

use core::fmt;
use thiserror::Error;

/// The kind of failure of a platform call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlatformFault {
    /// No memory, or a limit on memory (RLIMIT_AS, cgroup, overcommit).
    OutOfMemory,
    /// The limit on the number of mappings (`vm.max_map_count`).
    MapLimit,
    /// The machine or kernel does not have what was asked for.
    Unsupported,
    /// The pages are locked in memory, and the machine does not let this program unlock them.
    Locked,
    /// Anything else: see the code.
    Other,
}

impl fmt::Display for PlatformFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "out of memory",
            Self::MapLimit => "out of mappings",
            Self::Unsupported => "not supported",
            Self::Locked => "locked in memory",
            Self::Other => "refused",
        })
    }
}

/// A platform call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{call} failed: {fault} (code {code})")]
pub struct PlatformError {
    /// The call, for people.
    pub call: &'static str,
    /// The meaning of the error.
    pub fault: PlatformFault,
    /// The platform's own number for it (`errno` on Linux).
    pub code: i32,
}
