//! Need: allocations that found no room, and the notifiers that may free something for them.
//!
//! # Forks
//! A child of a fork lacks the threads that were in need, or inside a notifier, in its parent. The
//! counts of both carry a *generation*, which the child raises. A thread undoes only what it did in
//! the generation that it was in: the thread that forked may itself have been in need.

use crate::cache::Padded;
use crate::sync::AtomicU64;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use lock_api::{Mutex, RawMutex};
use thiserror::Error;

/// Memory is short: a notifier cannot be remembered. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no memory to remember a notifier")]
pub struct NotifierError;

/// Holds areas that it could do without: a cache.
pub trait Notifier: Send + Sync {
    /// Frees what it can of the space that asks, which wants addresses for `pages` pages and has
    /// given back all that was freed. Returns how many pages it has freed. No lock is held: it may
    /// allocate and free.
    ///
    /// The space believes the number for a few rounds only: an allocation that cannot be met ends
    /// in an error, whatever notifiers promise. Allocations made in here, or by others meanwhile,
    /// do not call notifiers again.
    fn make_room(&self, pages: u64) -> u64;
}

/// How many threads are in the middle of something. Low half: how many; high half: the generation.
#[derive(Default)]
pub(super) struct Inside(AtomicU64);

/// One of these threads, until it is dropped.
pub(super) struct Stay<'a> {
    inside: &'a Inside,
    generation: u64,
}

const GENERATION_SHIFT: u32 = 32;

impl Inside {
    /// Counts the calling thread. Relaxed: a thread that takes addresses for later after our purge
    /// has looked into its node does so under the node's lock.
    pub(super) fn enter(&self) -> Stay<'_> {
        Stay { inside: self, generation: self.0.fetch_add(1, Relaxed) >> GENERATION_SHIFT }
    }

    /// Counts the calling thread, unless another one is inside.
    fn enter_alone(&self) -> Option<Stay<'_>> {
        let alone = |word: u64| (word as u32 == 0).then_some(word + 1);
        // Acquire: as of a lock; pairs with the Release below.
        let word = self.0.fetch_update(Acquire, Relaxed, alone).ok()?;
        Some(Stay { inside: self, generation: word >> GENERATION_SHIFT })
    }

    /// Returns true if a thread is inside.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Relaxed) as u32 != 0
    }

    /// Drops the count in a child of a fork, where no other thread is inside.
    pub(super) fn start_anew(&self) {
        let generation = (self.0.load(Relaxed) >> GENERATION_SHIFT) + 1;
        self.0.store(generation << GENERATION_SHIFT, Relaxed);
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let less = |word: u64| (word >> GENERATION_SHIFT == self.generation).then(|| word - 1);
        // After a fork in between there is nothing to be counted off. Release: as of a lock.
        let _ = self.inside.0.fetch_update(Release, Relaxed, less);
    }
}

/// The notifiers of a space.
pub(super) struct Notifiers<L> {
    known: Mutex<L, Known>,
    /// The one thread that calls them.
    pub(super) calling: Padded<Inside>,
}

/// Notifiers in the order of registration, each with a number that no other has had.
#[derive(Default)]
struct Known {
    list: Vec<(u64, Weak<dyn Notifier>)>,
    next: u64,
}

impl<L: RawMutex> Notifiers<L> {
    pub(super) fn new() -> Self {
        Self { known: Mutex::new(Known::default()), calling: Padded(Inside::default()) }
    }

    pub(super) fn lock_all(&self) {
        core::mem::forget(self.known.lock());
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has called `lock_all`.
    pub(super) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise it is held.
        unsafe { self.known.force_unlock() };
    }

    /// Returns the first notifier whose number is in `numbers`, with its number.
    fn first_of(&self, numbers: Range<u64>) -> Option<(u64, Weak<dyn Notifier>)> {
        let known = self.known.lock();
        let index = known.list.partition_point(|(other, _)| *other < numbers.start);
        known.list.get(index).filter(|(number, _)| numbers.contains(number)).cloned()
    }

    /// Has `notifier` called from the next round on: see
    /// [`register_notifier`](super::Space::register_notifier).
    pub(super) fn register(&self, notifier: &Arc<dyn Notifier>) -> Result<(), NotifierError> {
        let mut known = self.known.lock();
        // Numbers stay with their notifiers, so a round that is under way skips none.
        known.list.retain(|(_, known)| known.strong_count() > 0);
        known.list.try_reserve(1).map_err(|_| NotifierError)?;
        let number = known.next;
        known.next += 1;
        known.list.push((number, Arc::downgrade(notifier)));
        Ok(())
    }

    /// Calls every notifier. Returns how many pages they say they have freed; 0 while another
    /// thread is calling them.
    pub(super) fn call(&self, pages: u64) -> u64 {
        let Some(_calling) = self.calling.enter_alone() else { return 0 };
        let (mut freed, mut numbers) = (0u64, 0..self.known.lock().next);
        // The list is not held over a call: it may be changed by one.
        while let Some((number, known)) = self.first_of(numbers.clone()) {
            if let Some(notifier) = known.upgrade() {
                freed = freed.saturating_add(notifier.make_room(pages));
            }
            numbers.start = number + 1;
        }
        freed
    }
}
