//! Types that own something of a space, and give it back when they are dropped.
//!
//! | type | owns | made by |
//! |---|---|---|
//! | [`Buffer`] | memory, as bytes | [`Space::buffer`](crate::Space::buffer), [`Space::zeroed_buffer`](crate::Space::zeroed_buffer), [`Buffer::new`] |
//! | [`Area`] | memory, by address | [`Area::new`] |
//! | [`Reservation`] | addresses alone | [`Reservation::new`] |
//! | [`Frames`] | frames of the supply | [`Space::frames`](crate::Space::frames), [`Frames::new`] |
//! | [`Mapping`], [`ReadOnlyMapping`] | an address for frames | [`Mapping::new`], [`ReadOnlyMapping::new`] |
//! | [`CodeBuffer`], [`Code`] | memory for code: writable, or executable | [`CodeBuffer::new`] |
//! | [`PagedArea`] | addresses, with memory or frames where it is asked for | [`PagedArea::new`] |
//!
//! Each holds its space by a [`SpaceRef`]: a reference `&Space<P>`, or an `Arc<Space<P>>`, with
//! which it can live as long as it likes and go to other threads. Each can be leaked into an
//! address and taken back from it.
//!
//! # Example
//! An example maps pages at two addresses, and finds an area by an address inside:
//! ```
//! use core::sync::atomic::Ordering::Relaxed;
//! use vmalloc::{DirectMemory, MapFrames, Mapping, Space};
//!
//! fn twice<P: DirectMemory + MapFrames>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
//!     let frames = space.frames(4)?;
//!     let one = Mapping::new(&frames)?;
//!     let two = Mapping::new(&frames)?;
//!     one.atomics()[0].store(7, Relaxed);
//!     assert_eq!(two.atomics()[0].load(Relaxed), 7);
//!     assert_eq!(space.find(one.addr() + 5000).map(|area| area.addr), Some(one.addr()));
//!     Ok(())
//! }
//! ```

#[cfg(feature = "allocator-api2")]
mod allocator;
mod buffer;
mod code;
mod frames;
mod handle;
mod paged_area;

#[cfg(feature = "allocator-api2")]
pub use allocator::SpaceAllocator;
pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use code::{Code, CodeBuffer};
pub use frames::{Frames, Mapping, ReadOnlyMapping, Share};
pub use handle::{Area, Owned, Reservation, SpaceRef};
pub use paged_area::PagedArea;
