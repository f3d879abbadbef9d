//! Batches: waiting slots that are reset together, by one discard and one decommit.
//!
//! A batch that the platform refuses is tried slot by slot. So one slot with, say, a locked page
//! keeps no other from being reset. Refused extents go on waiting. Batches go round: the next one
//! begins behind the last slot that was tried, so refused slots come again after all others.

use crate::pool::Slots;
use crate::record::{Pages, SlotState};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use vmalloc::{AreaError, Discard, Platform, SpaceRef};

impl<S: SpaceRef<Platform: Discard>> Slots<S> {
    /// Resets all waiting slots now: nothing of what their users wrote is left in memory then.
    /// O(waiting slots), with one discard and one decommit for each batch.
    ///
    /// # Errors
    /// [`AreaError`] when the platform refuses; the slots that it refuses to reset go on waiting.
    pub fn flush(&self) -> Result<(), AreaError> {
        self.reset_in_turn(|_| false)
    }

    /// Resets all waiting slots, and gives free slots back to the space until `keep` are left, with
    /// their addresses and memory. O(waiting and free slots).
    ///
    /// # Errors
    /// As [`flush`](Self::flush); slots that can't be given back stay.
    pub fn trim(&self, keep: usize) -> Result<(), AreaError> {
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
        let most = (self.options.waiting_bytes >> self.layout.shift) as u64;
        let is_much = self.counts.wait(pages, most);
        self.waiting.insert(index);
        // Of threads that fill a batch together, one finds it full. Slots that are refused again
        // and again fill none.
        let is_full = self.counts.arrive(self.options.batch_slots as u64);
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
            // None was tried if other threads have them all, or there is no memory for a batch.
            if is_over(outcome) || left == 0 || tried == 0 {
                return done;
            }
        }
    }

    /// Resets up to a batch, and up to `most`, of waiting slots: those behind the slots that were
    /// tried last. Those that are more than the pool keeps are given back to the space. Returns how
    /// many were tried.
    fn reset_batch(&self, most: usize) -> (usize, Result<(), AreaError>) {
        let most = self.options.batch_slots.min(most);
        let mut batch = match Batch::new(most) {
            Ok(batch) => batch,
            Err(error) => return (0, Err(error)),
        };
        let mut next = self.next_waiting.load(Relaxed);
        while batch.slots.len() < most {
            let Some(index) = self.waiting.remove_from(next) else { break };
            batch.slots.push((index, self.records.get(index)));
            next = index + 1;
        }
        self.next_waiting.store(next, Relaxed);
        let tried = batch.slots.len();
        let room = self.options.warm_slots.saturating_sub(self.free.len());
        let mut done = Ok(());
        for (index, _) in batch.slots.drain(room.min(tried)..).rev() {
            done = done.and(self.vacate(index));
        }
        let reset = if batch.slots.is_empty() { Ok(()) } else { self.reset(&mut batch) };
        (tried, done.and(reset))
    }

    /// Resets the slots of a batch together, or, if that is refused, each by itself.
    fn reset(&self, batch: &mut Batch) -> Result<(), AreaError> {
        let slots = core::mem::take(&mut batch.slots);
        let mut done = self.reset_together(batch, &slots);
        if let (Err(_), [_, _, ..]) = (done, &slots[..]) {
            done = Ok(());
            for slot in &slots {
                let alone = self.reset_together(batch, core::slice::from_ref(slot));
                done = done.and(alone.inspect_err(|_| self.waiting.insert(slot.0)));
            }
        } else if let (Err(_), [slot]) = (done, &slots[..]) {
            self.waiting.insert(slot.0);
        }
        done
    }

    /// Resets slots and makes them free; if that is refused, they are the caller's still.
    fn reset_together(&self, batch: &mut Batch, slots: &[(usize, SlotState)]) -> Result<(), AreaError> {
        batch.discards.clear();
        batch.decommits.clear();
        for (_, state) in slots {
            let limit = self.limit(state);
            let beyond = Pages { start: limit, end: state.committed };
            let enter = |list: &mut Vec<_>, pages: Pages| {
                if !pages.is_empty() {
                    list.push(self.bytes(state.base, pages));
                }
            };
            enter(&mut batch.discards, state.discard);
            enter(&mut batch.decommits, beyond);
        }
        // SAFETY: the slots are this call's (SLOT-1), all pages to be discarded are committed, and
        // nothing uses them.
        unsafe {
            if !batch.discards.is_empty() {
                self.space.raw().discard(&batch.discards)?;
            }
            if !batch.decommits.is_empty() {
                self.space.raw().decommit(&batch.decommits)?;
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

/// Slots that are reset together, and room for the lists that this takes.
struct Batch {
    slots: Vec<(usize, SlotState)>,
    discards: Vec<Range<usize>>,
    decommits: Vec<Range<usize>>,
}

impl Batch {
    fn new(slots: usize) -> Result<Self, AreaError> {
        Ok(Self { slots: list(slots)?, discards: list(slots)?, decommits: list(slots)? })
    }
}

/// Returns an empty list with room for so many.
fn list<T>(count: usize) -> Result<Vec<T>, AreaError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| vmalloc::AllocError::Metadata)?;
    Ok(list)
}
