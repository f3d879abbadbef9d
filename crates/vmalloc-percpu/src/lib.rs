//! Congruent areas: several areas at the same distances from one base, as the units of per-CPU
//! memory have to be.
//!
//! ```text
//!             base          + offset 0      + offset 1                     + offset 2
//!   ░░░░░░░░░░│░░░░░░░░░░░░░│███████│░░░░░░░│███████████│░░░░░░░░░░░░░░░░░░│████│░░░░
//! ```
//!
//! The areas of a space are reservations without guard pages, with the tag [`TAG`]: addresses, into
//! which the caller maps its pages ([`Raw::map_pages`](vmalloc::Raw::map_pages),
//! [`Raw::commit`](vmalloc::Raw::commit)). They come from the top of the space, away from
//! everything that is placed lowest first. [`alloc_in_map`] does the same in an
//! [`AreaMap`], which is addresses alone.
//!
//! # Search
//! The base comes down from the top. A part that does not fit at a base is looked for below, by a
//! search for the highest place; where it is found tells the highest base that this part leaves
//! possible, rounded down to the alignment, and all parts are asked again from there. When each has
//! fitted in turn, the base is the highest there is: no higher one was passed over without a part
//! that refused it.
//!
//! # Cost
//! A part that has come down into a free range fits there until the base leaves it below. So it
//! refuses at most once for each of the r free ranges of its size, and between two refusals each of
//! the n parts is asked once: at most n²·(r + 1) searches of O(log n) steps, whatever the span. In
//! a space each search holds the lock of the map for itself.
//!
//! # All or nothing
//! The parts are claimed one by one, at exact places. In a space another thread may take a place
//! between the search and the claim. Then the parts before it are freed, and the search begins
//! again: of two threads that meet, one has got its areas. Where memory for records is short, what
//! was claimed is freed, too.
//!
//! ```
//! use vmalloc::{AreaMap, PageRange};
//! use vmalloc_percpu::alloc_in_map;
//!
//! let mut map = AreaMap::new(PageRange::new(0x1000, 0x2000).unwrap())?;
//! let base = alloc_in_map(&mut map, &[0x100, 0], &[4, 8], 0x10, None)?;
//! assert_eq!(base, 0x1ef0);
//! assert_eq!(map.find(base + 0x103), PageRange::new(0x1ff0, 0x1ff4));
//! map.free(base)?;
//! map.free(base + 0x100)?;
//! assert!(map.is_whole());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`AreaMap`]: vmalloc::AreaMap
#![no_std]

extern crate alloc as heap;
#[cfg(test)]
extern crate std;

mod areas;
mod error;
mod map;
mod parts;

pub use areas::{CongruentAreas, TAG, alloc, free};
pub use error::{CongruentError, CongruentFreeError, NoCongruentSpace};
pub use map::alloc_in_map;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
