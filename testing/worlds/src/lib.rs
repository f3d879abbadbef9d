//! Random worlds: a space on Linux with random options, threads that do at random all that the API
//! has, and a model of what every page holds.
//!
//! ```sh
//! cargo test -p vmalloc-worlds                             # a minute
//! cargo run --release -p vmalloc-worlds -- 3600            # an hour; VMALLOC_SEED=… repeats a world
//! ```
//!
//! ```text
//!   world.rs    random options, threads, quiet moments, forks, the end: all is whole again
//!   dice.rs     what is chosen at random
//!   owners/     one file for each kind of owner: how it is made, checked, changed and ended
//! ```
//!
//! What holds, and is checked:
//! - **Content.** What was written to an area is there until it ends, also when it is resized, moved
//!   or gathered, in parent and child. Frames show the same bytes at each of their addresses.
//! - **Zero** means zero, for each kind of memory that promises it.
//! - **A flush** leaves no page of a freed area that can be read or has memory. Guards can't be read.
//! - **An error** changes nothing: what could not be done has left the content as it was.
//! - **The end** leaves the space whole: one free range, and no area, page or frame lost.

pub mod dice;
mod owners;
mod world;

pub use world::{Forks, run};
