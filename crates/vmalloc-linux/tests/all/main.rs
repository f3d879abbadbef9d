//! Tests of the platform on this machine's kernel.
//!
//! All of them share a process, and run at once. So a test that looks at its process as a whole,
//! changes it or forks gets a process of its own: `vmalloc_harness::in_own_process`. No test forks
//! here: a fork shares the pages of all tests, and waits for their locks.

mod common;

mod attributes;
mod commit;
mod drain;
mod dumps;
mod elsewhere;
mod environment;
mod events;
mod family;
#[cfg(target_pointer_width = "64")]
mod first_contact;
mod fork;
mod forked_roots;
mod frames;
mod kernels;
// Its spans and limits are beyond 32 bits.
#[cfg(target_pointer_width = "64")]
mod limits;

mod notify;
mod owned;
mod populate;
mod programs;
mod relocate;
mod ring;
mod root;
mod signals;
mod space;
mod strategies;
mod tools;
mod trap_means;
mod trap_memory;
mod trap_report;
mod traps;
#[cfg(target_pointer_width = "64")]
mod windows;
