//! What a platform call runs into.

use thiserror::Error;

/// The kind of failure of a platform call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PlatformFault {
    /// No memory, or a limit on memory (RLIMIT_AS, cgroup, overcommit).
    #[error("out of memory")]
    OutOfMemory,
    /// The limit on the number of mappings (`vm.max_map_count`).
    #[error("out of mappings")]
    MapLimit,
    /// The machine or kernel does not have what was asked for.
    #[error("not supported")]
    Unsupported,
    /// The pages are locked in memory, and the machine does not let this program unlock them.
    #[error("locked in memory")]
    Locked,
    /// Anything else: see the code.
    #[error("refused")]
    Other,
}

/// A platform call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[cfg_attr(feature = "error-texts", error("{call} failed: {fault} (code {code})"))]
#[cfg_attr(not(feature = "error-texts"), error("PlatformError"))]
pub struct PlatformError {
    /// The call, for people.
    pub call: &'static str,
    /// The meaning of the error.
    pub fault: PlatformFault,
    /// The platform's own number for it (`errno` on Linux).
    pub code: i32,
}
