//! Cycles, as the field's driver counts them.

#[cfg(not(target_arch = "x86_64"))]
mod nanoseconds;
#[cfg(target_arch = "x86_64")]
mod tsc;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use nanoseconds::{NAME, cycles};
#[cfg(target_arch = "x86_64")]
pub(crate) use tsc::{NAME, cycles};
