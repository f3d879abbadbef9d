//! Events for `tracing`, with the feature of that name. Without it nothing is left of the calls.
//!
//! A subscriber is called in the middle of a purge or an allocation, so it must not allocate from
//! the space itself. No event tells of a trap: that is known in a signal handler, where no
//! subscriber may be called. See [`trap_report`](crate::trap_report).

#[cfg(not(feature = "tracing"))]
mod silent;
#[cfg(feature = "tracing")]
mod told;

#[cfg(not(feature = "tracing"))]
pub(crate) use silent::{growth, purge, refusal};
#[cfg(feature = "tracing")]
pub(crate) use told::{growth, purge, refusal};
