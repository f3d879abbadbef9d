//! Traces: what programs and kernels did with addresses, read as a stream of [`Event`]s.
//!
//! ```text
//!   any Read ──decompress──► bytes ──detect──┬─► lines ──► ftrace  what Linux prints of its vmalloc and percpu tracepoints
//!            xz gz zst plain                 └─► lines ──► strace  mmap, munmap, mremap, mprotect and brk of programs
//!                                                            │
//!   [Reader]: Iterator<Item = Result<Event, Damage>>  ◄──────┘        and an [Account] of every line
//! ```
//!
//! Nothing is held but the line at hand, of a bounded size. What can't be read is
//! [`Damage`]: it names its place and its reason, is counted, and reading goes on behind it where
//! that is possible.
//!
//! Every line is exactly one of: an event, a header, another line that the format knows, damage.

mod account;
mod detect;
mod event;
mod fields;
mod ftrace;
mod lines;
mod reader;
mod strace;
mod synthetic;

pub use account::{Account, Damage, Kinds, Reason};
pub use detect::Format;
pub use event::{Event, Kind, page_of, pages_of};
pub use reader::{OpenError, Reader};
pub use synthetic::Synthetic;
pub use vmalloc_inspect::program::decompress::Compression;
