//! A virtual-memory area allocator, for kernels and for programs that manage large memory.
//!
//! On Linux, start with the crate `vmalloc-linux`.
//!
//! Three layers, each usable alone:
//! - [`AreaMap`] hands out ranges of page numbers: exact lowest fit for every alignment and limit
//!   in O(log n), immediate coalescing, look-up by any interior page. A pure data structure.
//! - [`Space`] puts memory behind them through a [`Platform`]: guard pages, lazy free, batched
//!   purge, caching of pages. Its unsafe layer [`Raw`] names areas by address.
//! - Types that own what they made: [`Buffer`], [`Mapping`] and [others](#what-owns-what).
//!
//! ```text
//!    owned      Buffer, Mapping, …              the span of a platform, in pages
//!                    │
//!    Space      caching, lazy free,         ┌──────┬─┬───┬─┬──────────┬─────────┬─┬────────────┐
//!               purge, look-up              │ area │g│ a │g│  freed,  │  area   │g│    free    │
//!         Fit (pages) │  │ pages to map     │      │ │   │ │  cached  │         │ │            │
//!                     ▼  │ or unmap         └──────┴─┴───┴─┴──────────┴─────────┴─┴────────────┘
//!    AreaMap    where    │                  start            g = guard page, never mapped    end
//!                        ▼
//!    Platform   memory, flush, locks        one for each machine: see `Platform`
//! ```
//!
//! ```
//! use vmalloc::{AreaMap, Fit, PageRange};
//!
//! let mut map = AreaMap::new(PageRange::new(0x1000, 0x9000).unwrap())?;
//! let area = map.alloc(&Fit::new(5).align(4))?;
//! assert_eq!((area.start(), area.len()), (0x1000, 5));
//! assert_eq!(map.find(0x1003), Some(area));
//! map.free(area.start())?;
//! assert!(map.is_whole());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What owns what
//! | type | owns | made by |
//! |---|---|---|
//! | [`Buffer`] | memory, as bytes | [`Space::buffer`](Space::buffer), [`Space::zeroed_buffer`](Space::zeroed_buffer), [`Buffer::new`] |
//! | [`Area`] | memory, by address | [`Area::new`] |
//! | [`Reservation`] | addresses alone | [`Reservation::new`] |
//! | [`Frames`] | frames of the supply | [`Space::frames`](Space::frames), [`Frames::new`] |
//! | [`Mapping`], [`ReadOnlyMapping`] | an address for frames | [`Mapping::new`], [`ReadOnlyMapping::new`] |
//! | [`CodeBuffer`], [`Code`] | memory for code: writable, or executable | [`CodeBuffer::new`] |
//! | [`PagedArea`] | addresses, with memory or frames where it is asked for | [`PagedArea::new`] |
//!
//! Each holds its space by a [`SpaceRef`]: a reference `&Space<P>`, or an `Arc<Space<P>>`, with
//! which it can live as long as it likes and go to other threads. Each ends what it owns when it is
//! dropped, and can be leaked into an address and taken back from it. Collections own areas by
//! `SpaceAllocator`, in the crate `vmalloc-malloc`. An example maps pages at two addresses, and
//! finds an area by an address inside:
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
//!
//! # What to know first
//! - Callers speak of bytes and addresses, and so do errors, whose ranges are ranges of addresses.
//!   Inside, everything is counted in pages and named by page number: in [`Platform`],
//!   [`PageRange`], and fields named `pages`.
//! - Errors carry their facts. A failed call changes nothing, except where its documentation says
//!   what a refusal by the platform leaves. [`AllocError::NoSpace`] says what was asked for,
//!   where, and the largest free range.
//! - The crate needs `alloc` but no operating system, and no thread or CPU: the platform brings the
//!   lock.
//!
//! `docs/glossary.md` of the repository defines the words of this documentation, and
//! `docs/linux-names.md` leads from Linux's calls to ours. Linux's names are aliases in this
//! documentation's search.
//!
//! # Features
//! - `error-texts` (on by default): errors tell their facts. Without it they tell the name of their
//!   type, which makes a kernel smaller.
//! - `serde`: area maps are written as span and segments, and checked when they are read; so are
//!   [`Stats`], [`NodeStats`] and [`AreaInfo`].
//! - `count-steps`: `AreaMap::last_steps` tells how many tree nodes and ranges a search looked at.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod setters;

mod areas;
mod error;
mod owned;
mod platform;
mod purge;
mod space;
#[cfg(test)]
mod tests;
mod wait;

pub use areas::{AreaInfo, Contended, Kind, Tag};
pub use error::{AllocError, AreaError, FreeError, PurgeError, SpaceError, Unbacked};
pub use owned::{
    Area, Buffer, Code, CodeBuffer, Content, Frames, Mapping, Owned, PagedArea, ProtectError,
    ReadOnlyMapping, Reservation, Share, SpaceRef, Stale, Zeroed,
};
pub use platform::{
    DirectMemory, Discard, DrainReason, Evict, Extras, Frame, FrameRun, FrameSupply, Geometry, MapFrames,
    MemoryCost, Origin, Platform, PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate,
    Translate,
};
pub use purge::{DrainStatus, tenant};
pub use space::{
    AreasIter, Cached, CachedAreas, MAX_NODES, NodeStats, Notifier, Outline, Raw, Request, Resize, Segments,
    Space, SpaceOptions, Stats, Vmallocinfo,
};
#[doc(inline)]
pub use vmalloc_map::{
    self as area_map, AreaMap, Fit, FitError, NoArea, NoSpace, PageRange, PageSet, Policy, RequestError,
};

/// Lists behind a lock: for allocators on top of a space.
#[doc(hidden)]
pub mod lists {
    pub use crate::wait::{lacks_one, lengthen};
}
#[doc(hidden)]
pub use vmalloc_map::sync;
