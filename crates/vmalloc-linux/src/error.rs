//! The error of all calls, that of a reservation, and the meaning of the kernel's error numbers for the allocator.

use crate::events;
use crate::fork::RegisterError;
use crate::os::limits::mappings_exhausted;
use crate::trap_report::InstallError;
use rustix::io::Errno;
use std::fmt;
use thiserror::Error;
use vmalloc::{
    AllocError, AreaError, FitError, FreeError, PlatformError, PlatformFault, Protect, ProtectError,
};
use vmalloc::{PurgeError, RequestError, SpaceError, SpaceRef};
use vmalloc_subspaces::SubspaceError;

/// The one error of a program that asks for no more: `?` makes it of that of every call here and of
/// a space.
///
/// Each call has a type of its own, which names what can go wrong there. An error in another one
/// stands here by itself, so that each refusal has one place.
///
/// ```
/// use vmalloc_linux::{AllocError, Error, LinuxOptions, Mapping, SpaceOptions, open};
///
/// fn play(bytes: usize) -> Result<(), Error> {
///     let space = open(LinuxOptions::new().max_bytes(64 << 20), SpaceOptions::default())?;
///     let frames = space.frames(4)?;
///     Mapping::new(&frames)?.write(0, b"shared");
///     space.zeroed_buffer(bytes)?.resize(2 * bytes)?;
///     Ok(space.purge()?)
/// }
/// assert_eq!(play(1 << 20), Ok(()));
/// assert!(matches!(play(1 << 30), Err(Error::Alloc(AllocError::NoSpace(_)))));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error(transparent)]
pub enum Error {
    /// The addresses could not be reserved.
    Reserve(#[from] ReserveError),
    /// No space could be made on them.
    Space(#[from] SpaceError),
    /// The space could not be made safe against forks.
    Fork(#[from] RegisterError),
    /// No sub-space could be made.
    Subspace(#[from] SubspaceError),
    /// Memory or addresses could not be allocated.
    Alloc(#[from] AllocError),
    /// The address is not that of an area which the call is for.
    Free(#[from] FreeError),
    /// Something can't be done with an area. What other variants say is never in it.
    Area(AreaError),
    /// A purge is not complete.
    Purge(#[from] PurgeError),
    /// The system refused.
    Platform(#[from] PlatformError),
    /// No handler of traps could be installed.
    Traps(#[from] InstallError),
}

impl From<AreaError> for Error {
    fn from(error: AreaError) -> Self {
        match error {
            AreaError::Area(error) => Self::Free(error),
            AreaError::Alloc(error) => Self::Alloc(error),
            AreaError::Platform(error) => Self::Platform(error),
            error => Self::Area(error),
        }
    }
}

impl From<FitError> for Error {
    fn from(error: FitError) -> Self {
        Self::Alloc(error.into())
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Self::Alloc(error.into())
    }
}

impl<S: SpaceRef<Platform: Protect>> From<ProtectError<S>> for Error {
    fn from(error: ProtectError<S>) -> Self {
        error.cause.into()
    }
}

/// An error of [`Linux::reserve`](crate::Linux::reserve). Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The size is zero.
    #[error("the size is zero")]
    ZeroSize,
    /// The size is not a whole number of pages.
    #[error("{bytes} bytes are not a multiple of the page size of {page_bytes}")]
    NotPageMultiple {
        /// The size asked for.
        bytes: usize,
        /// The size of a page.
        page_bytes: usize,
    },
    /// The size is more than half of what an address can name; no program has that.
    #[error("{} are more than any address space has", Size::of(*bytes))]
    TooLarge {
        /// The size asked for.
        bytes: usize,
    },
    /// The limit on the program's address space stands in the way.
    #[error("{} more than the {} in use would pass RLIMIT_AS, which is {}", Size::of(*bytes), Size(*used), Size(*limit))]
    AddressSpaceLimit {
        /// The smallest size tried.
        bytes: usize,
        /// Address space in use, in bytes.
        used: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The machine has no room for the smallest size tried, whatever the limits.
    #[error("no room for {} of addresses in a row: the most is {} (errno {code})", Size::of(*bytes), Size(*largest))]
    NoRoom {
        /// The smallest size tried.
        bytes: usize,
        /// The bytes of the largest free window; 0 where `/proc` does not tell.
        largest: u64,
        /// The `errno` of mmap(2).
        code: i32,
    },
    /// More bytes are asked for at least than at most.
    #[error("at least {} are more than the {} at most", Size::of(*least), Size::of(*most))]
    LeastAboveMost {
        /// The least asked for.
        least: usize,
        /// The most asked for.
        most: usize,
    },
    /// The alignment is not a power of two, or the address is not one of a page, or not aligned.
    #[error("address {address:#x} can't be aligned to {align} bytes")]
    NotAligned {
        /// The address asked for, or 0.
        address: usize,
        /// The alignment asked for, or the size of a page.
        align: usize,
    },
    /// The place asked for is taken, or has no room for the smallest size tried.
    #[error("no {} are free in {start:#x}..{end:#x}: the most is {}", Size::of(*bytes), Size(*largest))]
    NoWindow {
        /// The smallest size tried.
        bytes: usize,
        /// The first address allowed.
        start: u64,
        /// The address behind the last one allowed.
        end: u64,
        /// The bytes of the largest free window there, aligned; 0 where `/proc` does not tell.
        largest: u64,
    },
    /// The kernel refuses the means asked for, or every means that can be used.
    #[error("this kernel refuses {means} (errno {code})")]
    Unsupported {
        /// The means that the kernel refused.
        means: &'static str,
        /// The `errno` it answered with.
        code: i32,
    },
    /// Some other call failed.
    #[error("{call} failed (errno {code})")]
    System {
        /// The call.
        call: &'static str,
        /// Its `errno`.
        code: i32,
    },
}

/// A number of bytes, printed in the largest unit that has no fraction.
struct Size(u64);

impl Size {
    fn of(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["bytes", "KiB", "MiB", "GiB"];
        let nth = if self.0 == 0 { 0 } else { (self.0.trailing_zeros() as usize / 10).min(units.len() - 1) };
        write!(f, "{} {}", self.0 >> (10 * nth), units[nth])
    }
}

/// Returns the platform error for a `call` that failed with `errno`.
#[cold]
pub(crate) fn platform_error(call: &'static str, errno: Errno) -> PlatformError {
    let fault = match errno {
        // EAGAIN: madvise(2) says a kernel resource, which is memory, is short for the moment.
        Errno::NOMEM | Errno::AGAIN => PlatformFault::OutOfMemory,
        Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP => PlatformFault::Unsupported,
        _ => PlatformFault::Other,
    };
    refusal(call, fault, errno)
}

/// Returns the platform error for a `call` that was refused for want of this.
#[cold]
pub(crate) fn refusal(call: &'static str, fault: PlatformFault, errno: Errno) -> PlatformError {
    let error = PlatformError { call, fault, code: errno.raw_os_error() };
    events::refusal(&error);
    error
}

/// Returns the platform error for an mprotect(2) that failed with `errno`.
#[cold]
pub(crate) fn protect_error(errno: Errno) -> PlatformError {
    mapping_error(["mprotect", "mprotect (at vm.max_map_count)"], errno)
}

/// Returns the platform error for a call that changes mappings and failed with `errno`. The second
/// name is for a failure at the limit on mappings.
///
/// The kernel says `ENOMEM` both for want of memory and for want of mappings. What tells them apart
/// is whether it makes mappings that need no memory.
#[cold]
pub(crate) fn mapping_error([call, at_limit]: [&'static str; 2], errno: Errno) -> PlatformError {
    if errno == Errno::NOMEM && mappings_exhausted() {
        return refusal(at_limit, PlatformFault::MapLimit, errno);
    }
    platform_error(call, errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_largest_unit_without_a_fraction() {
        let told = [0, 1025, 5 << 12, (1 << 40) + (1 << 20), 3 << 44].map(|bytes| Size(bytes).to_string());
        assert_eq!(told, ["0 bytes", "1025 bytes", "20 KiB", "1048577 MiB", "49152 GiB"]);
    }
}
