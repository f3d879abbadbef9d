//! What owners of memory share: a model of it, and what becomes of errors.

pub(crate) mod memory;

use std::fmt::Display;

/// Returns what a call made, or counts its error, which has to have a text.
pub(crate) fn made<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// Panics with an error of a call that may not fail.
pub(crate) fn sure<T, E: Display>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}
