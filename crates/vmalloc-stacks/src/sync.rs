//! The atomics of magazines. In a build for models of weak memory (`--cfg loom`) they are models.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicUsize;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicUsize;
