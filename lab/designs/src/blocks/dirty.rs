//! The slots of a block that were returned, for a flush.
//!
//! ```text
//!     slots    ▒▒░▒░░▒▒▒░░░     ▒ dirty
//!     Bitmap   ▒▒ ▒  ▒▒▒        three ranges, found by seven searches     before the third patch
//!     Span     ▒▒▒▒▒▒▒▒▒        one range, with clean slots inside        since
//! ```

use super::{Flush, MAX_PAGES};

/// The dirty slots of a block.
pub(super) trait Dirty: Default + Send + Sync {
    /// Notes slots that were returned.
    fn add(&mut self, first: u64, slots: u64);

    /// Adds the work of a flush of them.
    fn flush(&self, work: &mut Flush);
}

/// A bit for each slot.
#[derive(Default)]
pub(super) struct Bitmap([u64; 16]);

impl Bitmap {
    /// Returns the first slot from `from` on that is dirty, or not; the end if there is none.
    fn find(&self, from: u64, is_dirty: bool) -> u64 {
        let end = 64 * self.0.len() as u64;
        let is_it = |slot: &u64| (self.0[(slot / 64) as usize] >> (slot % 64) & 1 != 0) == is_dirty;
        (from..end).find(is_it).unwrap_or(end)
    }
}

impl Dirty for Bitmap {
    fn add(&mut self, first: u64, slots: u64) {
        debug_assert!(slots <= MAX_PAGES, "a word of bits at most");
        (first..first + slots).for_each(|slot| self.0[(slot / 64) as usize] |= 1 << (slot % 64));
    }

    fn flush(&self, work: &mut Flush) {
        let mut start = self.find(0, true);
        work.searches += 1;
        while start < 64 * self.0.len() as u64 {
            let end = self.find(start, false);
            work.ranges += 1;
            work.pages += end - start;
            start = self.find(end, true);
            work.searches += 2;
        }
    }
}

/// The lowest dirty slot and the end of the highest.
#[derive(Default)]
pub(super) struct Span {
    start: u64,
    end: u64,
}

impl Dirty for Span {
    fn add(&mut self, first: u64, slots: u64) {
        self.start = if self.end == 0 { first } else { self.start.min(first) };
        self.end = self.end.max(first + slots);
    }

    fn flush(&self, work: &mut Flush) {
        work.ranges += u64::from(self.end != 0);
        work.pages += self.end - self.start;
    }
}
