//! A virtual-memory area allocator, for kernels and for programs that manage large memory.
//!
//! On Linux, start with the crate `vmalloc-linux`.
//!
//! Three layers, each usable alone:
//! - [`AreaMap`] hands out ranges of page numbers: exact lowest fit for every alignment and limit
//!   in O(log n), immediate coalescing, look-up by any interior page. A pure data structure.
//! - [`Space`] puts memory behind them through a [`Platform`]: guard pages, lazy free, batched
//!   purge, caching of pages. Its unsafe layer [`Raw`] names areas by address.
//! - [`owned`] has the types that own what they made: [`Buffer`], [`Mapping`] and others.
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
//! # What to know first
//! - Everything inside is counted in pages and named by page number; bytes appear only in
//!   [`Request`] and [`Space`].
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
//! - `allocator-api2-02`, `-03`, `-04`: [`SpaceAllocator`] implements the trait of this version of
//!   `allocator-api2`, for collections on a space.
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
mod cache;
mod error;
pub mod owned;
mod platform;
mod purge;
pub mod space;
#[cfg(test)]
mod tests;

#[cfg(feature = "allocator-api2-02")]
pub use allocator_api2_02;
#[cfg(feature = "allocator-api2-03")]
pub use allocator_api2_03;
#[cfg(feature = "allocator-api2-04")]
pub use allocator_api2_04;
pub use areas::{AreaInfo, Contended, Kind, Tag};
pub use error::{AllocError, AreaError, FreeError, SpaceError, Unbacked};
pub use owned::{
    Area, Buffer, Code, CodeBuffer, Frames, Mapping, PagedArea, ProtectError, ReadOnlyMapping, Reservation,
    Share, SpaceAllocator, SpaceRef, Stale, Zeroed,
};
pub use platform::{
    DirectMemory, Discard, DrainReason, Evict, Frame, FrameRun, FrameSupply, Geometry, MapFrames, Origin,
    Platform, PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate, Translate,
};
pub use purge::{DrainStatus, tenant};
pub use space::{NodeStats, Notifier, NotifierError, Raw, Request, Space, SpaceOptions, Stats};
#[doc(inline)]
pub use vmalloc_map::{
    self as area_map, AreaMap, Fit, FitError, NoArea, NoSpace, PageRange, PageSet, Policy, RequestError,
};

#[doc(hidden)]
pub use vmalloc_map::sync;
