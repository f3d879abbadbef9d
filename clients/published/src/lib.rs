//! Published sources of others, for the clients that run on them.
//!
//! No client holds a copy of what others published. It names a package and a version, and a build step or a test does the rest:
//!
//! 1. [`folder`] or [`named`] finds the source where cargo has unpacked it.
//! 2. [`copy`] makes a copy below the target directory.
//! 3. [`Source`] and [`Manifest`] edit the copy. An edit names what it changes: an item by its path, a statement by its first words, a
//!    section by its heading. The text that it puts there is ours.
//!
//! An edit that does not find what it names panics, so that a version with other items is noticed.

mod find;
mod folders;
mod manifest;
mod source;

pub use folders::{Error, copy, fetched, folder, for_build_script, named, refresh};
pub use manifest::Manifest;
pub use source::Source;
