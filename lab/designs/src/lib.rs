//! The lab: every design that Linux's allocator went through, side by side with ours.
//!
//! ```text
//!    workloads, traces ──► Design ◄── A0 busy list      (before 2018)
//!                            ▲   ◄── A1 free list      (2018)      with purges P0 (before 2016), P1 (2016), P2 (2018)
//!                            │   ◄── A2 augmented tree (2019)
//!                            │   ◄── A3 nodes          (2024)
//!                            └────── vmalloc           ours
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`design`] | the trait [`Design`], what designs are asked ([`Ask`]), told ([`Setup`]) and asked for ([`Counts`], [`Segment`]) |
//! | [`designs`] | all of them, by [`Name`](designs::Name): the four generations, their purges, and ours |
//! | [`blocks`] | short mappings out of larger blocks: before 2015, since, and ours |
//! | [`lock`], [`cpu`] | locks that count their waits, and the CPU that runs, or is played |
//! | [`null`] | the platform without memory, on which ours hands out addresses |
//! | [`workload`] | the cases of Linux's test driver, and other sets of calls |
//! | [`reproduce`] | the five published results, measured again |
//! | [`trace`] | traces of kernels and programs, read as events, compressed or not |
//! | [`replay`] | a trace done again by a design |
//! | [`clock`], [`rng`], [`stats`], [`times`] | clocks, random numbers, medians, histograms of times |
//! | [`workers`], [`table`], [`units`] | threads that start together, columns of text, bytes and counts in words |
//! | [`vmallocinfo`] | `/proc/vmallocinfo`, as the program `vmalloc` reads it |
//!
//! A [`Design`] hands out addresses and takes them back, lazily, as kernels do; no memory is behind
//! them. All have the same locks ([`lock`]), the same CPUs ([`cpu`]) and the same thresholds
//! ([`Setup`]), so that what differs is the design.

pub mod design;
pub mod designs;
#[cfg(not(machine))]
pub mod lock;
#[cfg(machine)]
#[path = "lock/modelled.rs"]
pub mod lock;
pub mod workload;

// A machine of virtual CPUs (`vmalloc-machine`) runs designs and workloads, and nothing else.
#[cfg(not(machine))]
pub mod blocks;
#[cfg(not(machine))]
pub mod replay;
#[cfg(not(machine))]
pub mod reproduce;
#[cfg(not(machine))]
pub mod trace;

#[cfg(not(machine))]
pub use vmalloc_inspect::program::{units, vmallocinfo};
pub use vmalloc_kit::{clock, cpu, null, rng, stats, table, times, workers};

pub use design::{Ask, Counts, Design, Refusal, Segment, Setup, State};
