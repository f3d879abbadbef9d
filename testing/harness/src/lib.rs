//! What tests and chores of this repository share, of the standard library alone.
//!
//! - [`in_own_process`] runs a test in a process that it has for itself.
//! - [`not_run`] notes what could not be run here, and why, where nothing can hide it.
//! - [`dynamic_library`] finds a library that programs of a test run with.
//! - [`mod@env`] has the seeds and lengths of random tests.
#![deny(unsafe_code)]

pub mod env;
mod library;
mod missing;
mod own_process;

pub use library::dynamic_library;
pub use missing::not_run;
pub use own_process::{OwnProcess, in_own_process, test_name};
