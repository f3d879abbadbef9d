//! Counts of maps, unmaps and flushes: the price of a flush protocol.

/// Calls so far. Only calls that succeeded are counted, unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Ranges mapped.
    pub maps: u64,
    /// Huge pages mapped.
    pub huge_pages: u64,
    /// Ranges mapped to frames of users and devices.
    pub frame_maps: u64,
    /// Ranges discarded.
    pub discards: u64,
    /// Calls of `unmap`.
    pub unmaps: u64,
    /// Calls of `flush`.
    pub flushes: u64,
    /// Calls that failed: on request, or because there were no frames.
    pub failed: u64,
    /// Drains that were asked for at once.
    pub drains: u64,
    /// Drains that were asked for by age.
    pub drains_by_age: u64,
}
