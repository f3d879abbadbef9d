//! The program's own heap, which keeps what the cases' lists took: no loss, but it looks like one.

#[cfg(target_env = "gnu")]
mod glibc;
#[cfg(not(target_env = "gnu"))]
mod other;

#[cfg(target_env = "gnu")]
pub(crate) use glibc::{return_large_blocks, trim};
#[cfg(not(target_env = "gnu"))]
pub(crate) use other::{return_large_blocks, trim};
