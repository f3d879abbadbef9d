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
// Forty thousand stacks take more addresses than 32 bits have.
#[cfg(target_pointer_width = "64")]
mod many;
#[cfg(target_pointer_width = "64")]
mod narrow;
// The stacks are overflowed by assembler.
#[cfg(target_arch = "x86_64")]
mod overflow;
mod reuse;
mod sizes;
