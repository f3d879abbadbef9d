//! Checks that a platform keeps the contract of [`vmalloc::Platform`] and of the powers it claims.
//!
//! Add this crate as a dev-dependency, and check the platform in a test:
//!
//! ```no_run
//! # use vmalloc_linux::{Linux, LinuxOptions, SpaceOptions};
//! # let options = LinuxOptions::new().max_bytes(64 << 20);
//! # let boot = move || Linux::reserve(options, &SpaceOptions::default()).unwrap();
//! // Memory at its own addresses, and nothing else:
//! vmalloc_conformance::check(boot).unwrap();
//!
//! // With more powers, each a trait that the platform implements:
//! let kit = vmalloc_conformance::Conformance::new(boot, vmalloc_conformance::Nofault);
//! kit.threads().frames().protect().relocate().discard().read_nofault().translate().check().unwrap();
//! ```
//!
//! A failure says what the contract promises, and what was seen instead.
//!
//! # Steps
//! ```text
//!   clauses     one promise each, on a platform that was just made           (constants, locks,
//!      │                                                                      memory, powers)
//!   walk        one program; the 1st, 2nd, 3rd … call of each kind fails      (Faulty)
//!      │
//!   matrix      random programs on a whole Space, against an oracle,
//!               for each combination of powers that can honestly be hidden    (Narrow)
//! ```
//!
//! # The platform under test
//! - `make` returns a platform of its own each time, with a span of 512 pages at least, and memory
//!   for each of them. 2,048 pages are a good size.
//! - The kit sees memory through a [`Look`]. [`Direct`] and [`Nofault`] serve platforms whose areas
//!   are memory of the program. A platform on a simulated machine brings its own.
//!
//! # What is not checked
//! A stale translation on another CPU is seen only if the [`Look`] can look from that CPU. Real
//! hardware needs a test of its own for that, as `testing/kernel` of this project is.

mod bench;
mod clauses;
mod kit;
mod report;

pub use clauses::Contents;
pub use kit::{Conformance, check};
pub use report::{Breaches, Failure, Report};
pub use vmalloc_programs::{Below, Blind, Direct, Faulty, Look, Narrow, Nofault, Point, Seen};

/// The examples of pages of the repository, compiled and run as tests: here, since no published
/// crate can name files outside of its package.
#[cfg(doctest)]
#[doc = include_str!("../../../crates/vmalloc/README.md")]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/linux-names.md")]
struct Documents;
