//! What vmalloc is compared with: allocators too simple to be wrong.
//!
//! The area map answers questions whose right answer is easy to say and hard to compute quickly.
//! This crate computes it slowly. A [`Generator`] makes programs of [`Op`]s from random numbers or
//! from a fuzzer's bytes; a [`Session`] runs each one on an [`AreaMap`](vmalloc_map::AreaMap) and on
//! [`NaiveMap`], and compares results, errors, segments and figures after every step.
//!
//! ```text
//!   Seeded ─┐                       ┌─► AreaMap ───────┐
//!   Bytes  ─┼─► Generator ─► Op ────┤                  ├─► Session: same answer, same state, verify()
//!   Words  ─┘    (Profile)          └─► NaiveMap       ┘
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
mod congruent;
mod generator;
mod naive;
mod op;
mod profile;
pub mod script;
mod session;
mod source;

pub use ask::Ask;
pub use congruent::highest_base;
pub use generator::Generator;
pub use naive::NaiveMap;
pub use op::{Op, Place, Spot};
pub use profile::{Profile, Rates, Sizes};
pub use session::{MetadataLimit, Session, Tally};
pub use source::{Bytes, Seeded, Source, Words};
pub use vmalloc_harness::env;
