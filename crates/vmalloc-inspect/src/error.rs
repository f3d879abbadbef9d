//! Why a space can't be looked into.

use thiserror::Error;

/// An error of a look into another process or a core dump.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum InspectError {
    /// No process has this number.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The number.
        pid: i32,
    },
    /// The process may not be read.
    #[error(
        "no permission to read process {pid}: it takes its owner or root, and a ptrace_scope that allows it"
    )]
    NoPermission {
        /// The number of the process.
        pid: i32,
    },
    /// The process has no memory: it is a zombie or a thread of the kernel.
    #[error("process {pid} has no memory: it has ended, or is a thread of the kernel")]
    NoMemory {
        /// The number of the process.
        pid: i32,
    },
    /// The process ended, or started another program, while it was read.
    #[error("process {pid} ended, or started another program, while it was read")]
    Ended {
        /// The number of the process.
        pid: i32,
    },
    /// The file is no core dump.
    #[error("{path} is no core dump of a 64-bit program of this kind of machine: {why}")]
    NotACore {
        /// The file.
        path: String,
        /// The fault that was found.
        why: String,
    },
    /// Nothing in the memory tells of a space.
    #[error("no space of vmalloc found: the program has none, or made it without open or share")]
    NoSpace,
    /// So much read-only memory has no trace of a space.
    #[error(
        "no space of vmalloc found in {limit} pages of read-only memory, and this program looks at no more"
    )]
    TooManyPages {
        /// The most pages that are looked at.
        limit: u64,
    },
    /// The core dump ends before its headers say: what was looked for may be missing.
    #[error(
        "the core dump is cut off: its headers tell of {told} bytes, and the file has {bytes} \
             (a limit as of `ulimit -c`, or a full disk); the records of a space may be in what is missing"
    )]
    Cut {
        /// Bytes that the whole dump would have.
        told: u64,
        /// Bytes of the file.
        bytes: u64,
    },
    /// A program of another version made the space.
    #[error(
        "a space of another version of vmalloc: its layouts are version {found}, this program reads {known}"
    )]
    OtherVersion {
        /// The version of the layouts there.
        found: u64,
        /// The version that this crate reads.
        known: u64,
    },
    /// An address can't be read: it is not mapped, or not in the dump.
    #[error("the memory at {addr:#x} can't be read: it is not mapped, or was not dumped")]
    Unreadable {
        /// The address.
        addr: u64,
    },
    /// The memory that was read is no state of a space.
    #[error("the records of the space are damaged, or changed all the time: {what}")]
    Damaged {
        /// The part that is wrong.
        what: &'static str,
    },
    /// The records are larger than this program reads.
    #[error("the records of the space are larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A call of the system failed.
    #[error("{call} failed: {why}")]
    System {
        /// The call.
        call: &'static str,
        /// The reason that the system gave.
        why: String,
    },
}

impl InspectError {
    /// Returns the error for something that no space has.
    pub(crate) fn damaged(what: &'static str) -> Self {
        Self::Damaged { what }
    }
}
