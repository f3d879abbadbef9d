//! Events for `tracing`, with the feature of that name. Without it nothing is left of the calls.
//!
//! A subscriber is called in the middle of a purge or an allocation, with locks of the space held.
//! So it must not allocate, free, resize, commit or purge there, nor drop what it owns there. No
//! event tells of a trap: that is known in a signal handler, where no subscriber may be called. See
//! [`trap_report`](crate::trap_report).

#[cfg(not(feature = "tracing"))]
mod silent;
#[cfg(feature = "tracing")]
mod told;

#[cfg(not(feature = "tracing"))]
pub(crate) use silent::{growth, purge, refusal, reservation};
#[cfg(feature = "tracing")]
pub(crate) use told::{growth, purge, refusal, reservation};
