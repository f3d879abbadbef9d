//! A report on a trap: which area was meant, and who freed it when.
//!
//! ```
//! use std::sync::Arc;
//! use vmalloc_linux::{LinuxOptions, open, trap_report, vmalloc::SpaceOptions};
//!
//! trap_report::install()?;
//! let space = open(LinuxOptions::new(), SpaceOptions::default().trap_on_free(true))?;
//! let _watch = trap_report::watch(&space);
//! # Ok::<(), vmalloc_linux::Error>(())
//! ```
//!
//! From then on a stale access ends the program with a line such as
//!
//! ```text
//! vmalloc: trap at 0x7f2f50003010: byte 16 of an area that thread 4711 freed 12 ms ago:
//! 0x7f2f50003000, 65536 bytes, "rows"
//! ```
//!
//! before whatever the program does about `SIGSEGV` and `SIGBUS` otherwise: the handlers that were
//! there are called next. The report takes no lock and no heap, and waits for nothing.
//!
//! Areas are remembered that a space with [`SpaceOptions::trap_on_free`](vmalloc::SpaceOptions::trap_on_free)
//! has freed: the last 2048 of the program. With the feature `trap-backtrace` the report shows from
//! where each was freed: return addresses, for `addr2line` or [`look_up`].

mod handlers;
mod place;
mod records;
mod watches;

use crate::beacon::RecordPlaces;
pub use handlers::{InstallError, install};
#[doc(hidden)]
pub use handlers::{Reporter, report_stacks_to};
pub use place::{Place, Trap};
pub use records::{FRAMES, Freed};
pub use watches::{Watch, watch};

/// Returns what is known of the address that a program has trapped at. Takes no lock and no heap,
/// and may be called in a signal handler.
#[must_use]
pub fn look_up(addr: usize) -> Option<Trap> {
    place::look_up(addr)
}

/// Returns where the records of frees lie, for a reader in another process.
pub(crate) fn record_places() -> RecordPlaces {
    records::places()
}

/// Remembers that the calling thread frees an area, if reports are wanted.
#[inline]
pub(crate) fn note_free(addr: usize, bytes: usize, tag: Option<&str>) {
    if handlers::is_installed() {
        records::note(addr..addr + bytes, tag);
    }
}
