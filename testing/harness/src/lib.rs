//! What tests and chores of this repository share.
//!
//! - [`in_own_process`] runs a test in a process that it has for itself.
//! - [`not_run`] notes what could not be run here, and why, where nothing can hide it;
//!   [`is_installed`] does so where a program of the system is missing.
//! - [`dynamic_library`] finds a library that programs of a test run with.
//! - [`in_forked_child`] runs a part of a test in a child of a fork; [`peek`] looks at memory
//!   that may trap.
//! - [`narrow_addresses`] and [`limit_addresses`] leave a process few addresses; [`map_limit`]
//!   leaves it few mappings, and [`without_proc`] no `/proc`.
//! - [`mod@env`] has the seeds and lengths of random tests; [`Told`] prints where one has failed.
#![deny(unsafe_code)]

pub mod env;
#[cfg(target_os = "linux")]
mod forked;
mod library;
mod missing;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod narrow;
mod own_process;
mod told;

#[cfg(target_os = "linux")]
pub use forked::{in_forked_child, output_of_child, peek, resident, status_of_child};
pub use library::dynamic_library;
pub use missing::{is_installed, not_run};
#[cfg(target_os = "linux")]
pub use mounts::{kernel_map_limit, map_limit, without_proc};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use narrow::{limit_addresses, narrow_addresses};
pub use own_process::{OwnProcess, in_own_process, test_name};
pub use told::Told;
