//! Options.

use super::MOST_PAGES;
use super::error::ShortError;
use super::slots::MAX_SLOTS;

/// Options of short mappings. Each field has a builder of the same name.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct ShortMapsOptions {
    /// Slots of a block, a power of two from 64 to 1024. 0 = 1024, and fewer where the span is
    /// small. Default: 0.
    pub block_slots: u64,
}

impl ShortMapsOptions {
    /// Returns the defaults.
    pub const fn new() -> Self {
        Self { block_slots: 0 }
    }

    /// Sets [`block_slots`](Self::block_slots).
    pub const fn block_slots(mut self, slots: u64) -> Self {
        self.block_slots = slots;
        self
    }

    pub(crate) fn checked_slots(&self) -> Result<u64, ShortError> {
        let slots = self.block_slots;
        if slots == 0 || slots.is_power_of_two() && (MOST_PAGES..=MAX_SLOTS as u64).contains(&slots) {
            return Ok(slots);
        }
        Err(ShortError::BadBlock { slots })
    }
}
