//! The common part of the libraries to preload, `libvmalloc_malloc.so` and `libvmalloc_mmap.so`.
//!
//! ```text
//!   records.rs   the heap of a library's own records: mappings of the kernel's, under one lock
//!   message.rs   lines on stderr, without allocation
//!   errno.rs     errno, kept over a call
//!   ranges.rs    sets of addresses
//!   value.rs     values of settings
//! ```
//!
//! All of it runs inside of programs of others, in calls that may come at any time. So it uses
//! nothing of the C library that allocates, waits, or may be replaced by a library to preload.

mod errno;
mod message;
mod ranges;
mod records;
mod value;

pub use errno::{SavedErrno, errno, set_errno};
pub use message::{Line, say};
pub use ranges::Ranges;
pub use records::Records;
pub use value::{bytes, number, switch};
