//! A virtual-address allocator.
#![no_std]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod addr;
pub mod area_map;
mod error;
mod platform;
mod request;
pub mod space;

pub use addr::PageRange;
pub use area_map::AreaMap;
pub use error::{AllocError, FreeError, NoSpace, PlatformError, PlatformFault, RequestError};
pub use platform::{DirectMemory, Platform, Protection, Translate};
pub use request::{Fit, Policy};
pub use space::{AreaInfo, Buffer, Config, Kind, Request, Space, Stale, Stats, Zeroed};
