//! Types that own something of a space, and give it back when they are dropped: the documentation
//! of the [crate](crate) lists them.

mod buffer;
mod code;
mod frames;
mod handle;
mod paged_area;

pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use code::{Code, CodeBuffer, ProtectError};
pub use frames::{Frames, Mapping, ReadOnlyMapping, Share};
pub use handle::{Area, Owned, Reservation, SpaceRef};
pub use paged_area::PagedArea;

use crate::AllocError;
use crate::platform::{DirectMemory, FrameSupply};
use crate::space::{Request, Space};

impl<P: DirectMemory> Space<P> {
    /// Allocates an owned buffer of `bytes` zeros. Cost as [`Raw::alloc`](crate::Raw::alloc).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn zeroed_buffer(&self, bytes: usize) -> Result<Buffer<&Self, Zeroed>, AllocError> {
        Buffer::new(self, &Request::new(bytes))
    }

    /// Allocates an owned buffer of `bytes` bytes that need not be zeros: cheaper when a cached
    /// area is at hand. Cost as [`Raw::alloc`](crate::Raw::alloc).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer<&Self, Stale>, AllocError> {
        Buffer::new(self, &Request::new(bytes))
    }
}

impl<P: FrameSupply> Space<P> {
    /// Takes `count` frames of any content from the supply. In bulk, all or none. Where the supply
    /// is short of them, everything freed is given back first.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn frames(&self, count: usize) -> Result<Frames<&Self>, AllocError> {
        Frames::new(self, count)
    }
}
