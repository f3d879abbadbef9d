//! What vmalloc is compared with: allocators too simple to be wrong.
//!
//! The area map answers questions whose right answer is easy to say and hard to compute quickly.
//! This crate computes it slowly. A [`Generator`] makes programs of [`Op`]s from random numbers or
//! from a fuzzer's bytes; a [`Session`] runs each one on a [`Map`] under test and on [`NaiveMap`],
//! and compares results, errors, segments and figures after every step; a [`Failure`] shrinks what
//! went wrong to the few operations that matter and prints the seed that brings it back.
//!
//! ```text
//!   Seeded ─┐                       ┌─► map under test ─┐
//!   Bytes  ─┼─► Generator ─► Op ────┤                   ├─► Session: same answer, same state, verify()
//!   Words  ─┘    (Profile)          └─► NaiveMap        ┘
//! ```
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
mod failure;
mod generator;
mod map;
mod mismatch;
mod naive;
mod op;
mod profile;
mod runner;
pub mod script;
mod session;
mod source;

pub use ask::Ask;
pub use congruent::highest_base;
pub use failure::Failure;
pub use generator::Generator;
pub use map::Map;
pub use mismatch::{Mismatch, Outcome};
pub use naive::NaiveMap;
pub use op::{Op, Place, Resize, Spot};
pub use profile::{Profile, Rates, Sizes};
pub use runner::{Runner, run};
pub use session::{Checks, MetadataLimit, Placement, Session, Tally};
pub use source::{Bytes, Seeded, Source, Words};
pub use vmalloc_harness::env;
