//! Batches: waiting slots that are reset together, by one discard and one decommit.
//!
//! A batch that the platform refuses is tried slot by slot. So one slot with, say, a locked page
//! keeps no other from being reset. Refused extents go on waiting. Batches go round: the next one
//! begins behind the last slot that was tried, so refused slots come again after all others.

use crate::pool::PoolOn;
use crate::record::{Pages, SlotState};
use arrayvec::ArrayVec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use vmalloc::{AreaError, Discard};

/// The most slots that are reset together: a 64th of the interrupts of other CPUs that each by
/// itself takes.
pub(crate) const BATCH: usize = 64;

/// The fewest, which save three quarters. A pool of fewer slots resets them when they are needed.
pub(crate) const LEAST_BATCH: usize = 4;

/// A slot of a batch.
type Member = (usize, SlotState);
/// Ranges of a batch: one a slot at most.
type Ranges = ArrayVec<Range<usize>, BATCH>;

impl<P: Discard> PoolOn<'_, P> {
    /// Resets all waiting slots: [`Slots::flush`](crate::Slots::flush).
    pub(crate) fn flush(&self) -> Result<(), AreaError> {
        self.reset_in_turn(|_| false)
    }

    /// Gives free slots back until `keep` are left: [`Slots::trim`](crate::Slots::trim).
    pub(crate) fn trim(&self, keep: usize) -> Result<(), AreaError> {
        let mut done = self.flush();
        while self.free.len() > keep {
            let lowest = self.free.remove_lowest().or_else(|| self.free.take_any_parked());
            let Some(index) = lowest else { break };
            // If that is refused, the slot is not free any more, and is not tried again here.
            done = done.and(self.vacate(index));
        }
        done
    }

    /// Enters a slot that has `pages` of memory to lose, and resets a batch if one is due.
    pub(crate) fn wait(&self, index: usize, pages: u64) {
        let most = (self.options.resident_bytes >> self.layout.shift) as u64;
        let is_much = self.counts.wait(pages, most);
        self.waiting.insert(index);
        // Of threads that fill a batch together, one finds it full. Slots that are refused again
        // and again fill none.
        let is_full = self.counts.arrive(self.layout.batch as u64);
        if is_much || is_full {
            let mut batches = 0;
            // Refused slots took the places of others, which would become more and more: one more
            // batch makes up for that. Refused slots go on waiting.
            let _ = self.reset_in_turn(|outcome| {
                batches += 1;
                outcome.is_ok() || batches == 2
            });
        }
    }

    /// Resets waiting slots, a batch at a time, until each was tried once, or `is_over` says so
    /// after a batch. Returns the first error.
    pub(crate) fn reset_in_turn(
        &self,
        mut is_over: impl FnMut(Result<(), AreaError>) -> bool,
    ) -> Result<(), AreaError> {
        let (mut left, mut done) = (self.waiting.len(), Ok(()));
        loop {
            let (tried, outcome) = self.reset_batch(left);
            left -= tried;
            done = done.and(outcome);
            // None was tried if other threads have them all.
            if is_over(outcome) || left == 0 || tried == 0 {
                return done;
            }
        }
    }

    /// Resets up to a batch, and up to `most`, of waiting slots: those behind the slots that were
    /// tried last. Returns how many were tried.
    fn reset_batch(&self, most: usize) -> (usize, Result<(), AreaError>) {
        let mut batch = ArrayVec::<Member, BATCH>::new();
        let mut next = self.next_waiting.load(Relaxed);
        while batch.len() < most.min(self.layout.batch) {
            let Some(index) = self.waiting.remove_from(next) else { break };
            batch.push((index, self.records.get(index)));
            next = index + 1;
        }
        self.next_waiting.store(next, Relaxed);
        (batch.len(), if batch.is_empty() { Ok(()) } else { self.reset(&batch) })
    }

    /// Resets the slots of a batch together, or, if that is refused, each by itself.
    fn reset(&self, batch: &[Member]) -> Result<(), AreaError> {
        self.reset_together(batch).or_else(|error| {
            if let [(index, _)] = batch {
                self.waiting.insert(*index);
                return Err(error);
            }
            let mut done = Ok(());
            batch.chunks(1).for_each(|slot| done = done.and(self.reset(slot)));
            done
        })
    }

    /// Resets slots and makes them free; if that is refused, they are the caller's still.
    fn reset_together(&self, slots: &[Member]) -> Result<(), AreaError> {
        let ranges_of = |pages_of: &dyn Fn(&SlotState) -> Pages| -> Ranges {
            let pages = slots.iter().map(|(_, state)| (state.base, pages_of(state)));
            pages
                .filter(|(_, pages)| !pages.is_empty())
                .map(|(base, pages)| self.bytes(base, pages))
                .collect()
        };
        let discards = ranges_of(&|state| state.discard);
        let decommits = ranges_of(&|state| Pages { start: self.limit(state), end: state.committed });
        // SAFETY: the slots are this call's (SLOT-1), all pages to be discarded are committed, and
        // nothing uses them.
        unsafe {
            if !discards.is_empty() {
                self.space.raw().discard(&discards)?;
            }
            if !decommits.is_empty() {
                self.space.raw().decommit(&decommits)?;
            }
        }
        self.counts.batch(slots.len());
        for (index, state) in slots {
            let (discard, committed) = (Pages::default(), self.limit(state));
            self.records.set(*index, SlotState { discard, committed, waiting: 0, ..*state });
            self.counts.unwait(state.waiting);
            self.free.insert(*index);
        }
        Ok(())
    }

    /// Gives a slot that the caller owns back to the space. If that is refused, it waits.
    pub(crate) fn vacate(&self, index: usize) -> Result<(), AreaError> {
        let state = self.records.get(index);
        // Before the addresses go, for a fork may come in between (SLOT-6).
        self.records.set(index, SlotState::default());
        // SAFETY: the slot is this call's (SLOT-1), and nothing uses it.
        if let Err(error) = unsafe { self.unreserve(&state) } {
            self.records.set(index, state);
            self.waiting.insert(index);
            return Err(error.into());
        }
        self.counts.unkeep(self.space.platform().cpu(), state.kept);
        self.counts.unwait(state.waiting);
        self.vacant.insert(index);
        Ok(())
    }
}
