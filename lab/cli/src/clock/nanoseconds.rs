//! Elsewhere: nanoseconds, as if the machine ran at a nominal gigahertz.

use std::sync::LazyLock;
use std::time::Instant;

/// What is counted.
pub(crate) const NAME: &str = "nanoseconds at a nominal 1 GHz";

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first call.
pub(crate) fn cycles() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
