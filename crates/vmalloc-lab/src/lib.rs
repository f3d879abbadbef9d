//! The lab: every design that the field's allocator went through, side by side with ours.
//!
//! ```text
//!    workloads, traces ──► Design ◄── A0 busy list      (before 2018)
//!                            ▲   ◄── A1 free list      (2018)      with purges P0 (before 2016), P1 (2016), P2 (2018)
//!                            │   ◄── A2 augmented tree (2019)
//!                            │   ◄── A3 nodes          (2024)
//!                            └────── vmalloc           ours
//! ```
//!
//! A [`Design`] hands out addresses and takes them back, lazily, as kernels do; no memory is behind them. All have the
//! same locks ([`lock`]), the same CPUs ([`cpu`]) and the same thresholds ([`Setup`]), so that what differs is the design.

pub mod blocks;
pub mod cpu;
pub mod design;
pub mod designs;
pub mod lock;
pub mod replay;
pub mod reproduce;
pub mod rng;
pub mod trace;
pub mod workload;

pub use design::{Ask, Counts, Design, Refusal, Segment, Setup, State};
