//! Types that own something of a space, and give it back when they are dropped: the documentation
//! of the [crate](crate) lists them.

mod allocator;
mod buffer;
mod code;
mod frames;
mod handle;
mod paged_area;

pub use allocator::SpaceAllocator;
pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use code::{Code, CodeBuffer, ProtectError};
pub use frames::{Frames, Mapping, ReadOnlyMapping, Share};
pub use handle::{Area, Owned, Reservation, SpaceRef};
pub use paged_area::PagedArea;
