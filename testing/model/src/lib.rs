//! What vmalloc is compared with: allocators too simple to be wrong.
//!
//! The area map answers questions whose right answer is easy to say and hard to compute quickly.
//! This crate computes it slowly. A [`Session`] takes the choices of a [`Source`], random numbers
//! or a fuzzer's bytes, does each step on an [`AreaMap`](vmalloc_map::AreaMap) and on [`NaiveMap`], and
//! compares results, errors, segments and figures.
//!
//! ```text
//!   Seeded ─┐                     ┌─► AreaMap ───────┐
//!   Bytes  ─┼─► Session::play ────┤                  ├─► same answer, same state, verify()
//!   Words  ─┘   (Profile)         └─► NaiveMap       ┘
//! ```
//!
//! A program is cut down by what made it: words by proptest, bytes by the fuzzer.
//!
//! One level up, where placement is the allocator's own business (it may reuse what it cached), the
//! oracle of the crate `vmalloc-programs` asks whether an answer is legal instead of predicting it.
//!
//! [`script`] plays a fuzzer's bytes.
//!
//! Nothing here is part of the product: it is a dev-dependency everywhere.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ask;
mod choices;
mod congruent;
mod naive;
mod profile;
pub mod script;
mod session;
mod source;
mod steps;

pub use ask::Ask;
pub use congruent::highest_base;
pub use naive::NaiveMap;
pub use profile::{Profile, Rates, Sizes};
pub use session::{MetadataLimit, Session, Tally};
pub use source::{Bytes, Seeded, Source, Words};
pub use vmalloc_harness::env;
