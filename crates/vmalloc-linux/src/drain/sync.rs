//! What the drains of the process share, and the system's sleep, clock and threads. In a build for
//! models of weak memory (`--cfg loom`) all are models.

#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod plain;

#[cfg(loom)]
pub(crate) use modelled::*;
#[cfg(not(loom))]
pub(crate) use plain::*;
