//! What the library stands on inside of a program: a heap for its own records, lines on stderr,
//! errno.
//!
//! ```text
//!   records.rs   the heap of the library's own records: mappings of the kernel's, under one lock
//!   message.rs   lines on stderr, without allocation
//!   errno.rs     errno, kept over a call
//!   proc.rs      numbers of the process from /proc
//!   ranges.rs    sets of addresses
//!   symbols.rs   functions of the C library itself
//!   value.rs     values of settings
//! ```
//!
//! All of it runs inside of programs of others, in calls that may come at any time. So it uses
//! nothing of the C library that allocates, waits, or may be replaced by a library to preload.
//! Nothing here knows the rest of the library, so its tests build it without the symbols of malloc
//! (`tests/all/main.rs`).

mod errno;
mod message;
mod proc;
mod ranges;
mod records;
mod symbols;
mod value;

pub(crate) use errno::{SavedErrno, set_errno};
pub(crate) use message::{Line, say};
pub(crate) use proc::{peak_kib, resident_pages};
pub(crate) use ranges::Ranges;
pub(crate) use records::Records;
pub(crate) use symbols::function_of_glibc;
pub(crate) use value::{bytes, number, switch};
