//! Counts of maps, unmaps and flushes: the price of a flush protocol.

/// Calls and their work so far. Only calls that succeeded are counted, unless the name says
/// otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Ranges mapped.
    pub maps: u64,
    /// Huge pages mapped.
    pub huge_pages: u64,
    /// Ranges mapped to frames of users and devices.
    pub frame_maps: u64,
    /// Pages that a frame was put behind while they led, or had led, to another.
    pub replaced_pages: u64,
    /// Ranges discarded.
    pub discards: u64,
    /// Calls of `protect`.
    pub protects: u64,
    /// Ranges relocated.
    pub relocations: u64,
    /// Calls of `unmap`.
    pub unmaps: u64,
    /// Calls of `flush`.
    pub flushes: u64,
    /// Ranges in all flushes.
    pub flushed_ranges: u64,
    /// Pages in all flushes.
    pub flushed_pages: u64,
    /// Other CPUs interrupted: by flushes, failed ones too, by replacing and by protecting.
    pub interrupts: u64,
    /// Calls that failed: on request, or because there were no frames.
    pub failed: u64,
    /// Calls that failed because there were no frames.
    pub out_of_frames: u64,
    /// Drains that were asked for at once.
    pub drains: u64,
    /// Drains that were asked for by age.
    pub drains_by_age: u64,
}

/// One flush that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Flush {
    /// Where it was called.
    pub cpu: usize,
    /// Ranges in the call.
    pub ranges: u64,
    /// Pages in its ranges.
    pub pages: u64,
    /// Other CPUs interrupted: one interrupt each, however many of the ranges it holds.
    pub interrupts: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, flush: &Flush) {
        self.flushes += 1;
        self.flushed_ranges += flush.ranges;
        self.flushed_pages += flush.pages;
    }
}
