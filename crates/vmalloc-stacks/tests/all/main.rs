//! Tests of stacks.
//!
//! They share a process, and run at once: a test that counts what its process has, or forks, gets
//! one of its own.

mod common;

#[cfg(feature = "corosensei")]
mod coroutines;
mod examples;
mod fork;
mod guards;
mod life;
mod many;
// The stacks are overflowed by assembler.
#[cfg(target_arch = "x86_64")]
mod overflow;
mod reuse;
mod sizes;
