//! Errors of areas into which pages are gathered.

use crate::error::platform_error;
use rustix::io::Errno;
use thiserror::Error;
use vmalloc::{AllocError, PlatformError};

/// An error of a [`GatherArea`](super::GatherArea). Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GatherError {
    /// The area can't be had.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The system refused a call.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The area has not so many pages.
    #[error("pages {at} to {at} + {pages} are not all in an area of {len}")]
    Beyond {
        /// The first page asked for, by its number in the area.
        at: usize,
        /// The number of pages asked for.
        pages: usize,
        /// The pages of the area.
        len: usize,
    },
    /// A page of the area holds a gathered page already.
    #[error("page {at} of the area holds a gathered page already")]
    Occupied {
        /// The number of the first such page.
        at: usize,
    },
    /// A page of the area holds no gathered page, or it was named before.
    #[error("page {at} of the area holds no gathered page")]
    Empty {
        /// The number of the first such page.
        at: usize,
    },
    /// An address that no page begins at.
    #[error("no page begins at {addr:#x}")]
    Unaligned {
        /// The address.
        addr: usize,
    },
    /// An address in the area itself.
    #[error("{addr:#x} is in the area itself")]
    Inside {
        /// The address.
        addr: usize,
    },
    /// A page that is no private anonymous memory, can't be read and written, is a guard page, or
    /// is locked.
    #[error("the page at {addr:#x} can't be moved (errno {code})")]
    NotMovable {
        /// The address of the page.
        addr: usize,
        /// The `errno` that the kernel answered with.
        code: i32,
    },
}

/// Returns the error for a page that was refused with `errno`.
#[cold]
pub(super) fn refusal(addr: usize, errno: Errno) -> GatherError {
    match errno {
        Errno::NOMEM => platform_error("UFFDIO_MOVE", errno).into(),
        _ => GatherError::NotMovable { addr, code: errno.raw_os_error() },
    }
}
