//! Need: allocations that found no room; and the notifiers, which may free something for them, and
//! let decay what they keep.
//!
//! # Forks
//! A child of a fork lacks the threads that were in need, or inside a notifier, in its parent. Both
//! words below carry a *generation*, which the child raises. A thread undoes only what it did in
//! the generation that it was in: the thread that forked may itself have been in need.

use super::Space;
use crate::AllocError;
use crate::cache::Padded;
use crate::platform::Platform;
use crate::sync::AtomicU64;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use lock_api::Mutex;

/// Keeps areas of a space that it could do without: a cache, a pool.
///
/// The space refers weakly to a notifier, and strongly during a call. So a notifier may be dropped
/// by the end of a call: one that has to do something then finds that out by
/// [`Arc::into_inner`].
pub trait Notifier<P: Platform>: Send + Sync {
    /// Frees what it can of `space`, which wants addresses for `pages` pages and has given back all
    /// that was freed. Returns how many pages it has freed. No lock is held: it may allocate and
    /// free.
    ///
    /// The space believes the number for a few rounds only: an allocation that cannot be met ends
    /// in an error, whatever notifiers promise. Allocations made in here, or by others meanwhile,
    /// do not call notifiers again.
    fn make_room(self: Arc<Self>, space: &Space<P>, pages: u64) -> u64;

    /// Gives a part of what was not needed since the last call back, so that nothing is left after
    /// a while. Returns whether anything is left. Each [`drain`](Space::drain) and
    /// [`decay`](Space::decay) calls this. No lock is held: it may allocate and free.
    ///
    /// A notifier that begins to keep something has the space know, by any free, or asks the
    /// platform to [drain later](Platform::drain_later).
    fn decay(self: Arc<Self>, _space: &Space<P>) -> bool {
        false
    }
}

/// How many allocations wait for addresses to be given back, and how many purges and drains go from
/// node to node. While any does, no node takes addresses for later, neither from the map nor from
/// other nodes. Low half: how many; high half: the generation.
#[derive(Default)]
pub(super) struct Need(AtomicU64);

/// One allocation in need, or one walk over all nodes, until it is dropped.
pub(super) struct InNeed<'a> {
    need: &'a Need,
    generation: u64,
}

const GENERATION_SHIFT: u32 = 32;

impl Need {
    /// Counts an allocation in need, or a walk. Relaxed: a thread that takes addresses for later
    /// after our purge has looked into its node does so under the node's lock.
    pub(super) fn enter(&self) -> InNeed<'_> {
        InNeed { need: self, generation: self.0.fetch_add(1, Relaxed) >> GENERATION_SHIFT }
    }

    /// Returns true if an allocation is in need, or a purge goes from node to node.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Relaxed) as u32 != 0
    }

    /// Drops the count in a child of a fork, where no other thread is in need.
    pub(super) fn start_anew(&self) {
        let generation = (self.0.load(Relaxed) >> GENERATION_SHIFT) + 1;
        self.0.store(generation << GENERATION_SHIFT, Relaxed);
    }
}

impl Drop for InNeed<'_> {
    fn drop(&mut self) {
        let less = |word: u64| (word >> GENERATION_SHIFT == self.generation).then(|| word - 1);
        // After a fork in between there is nothing to be counted off.
        let _ = self.need.0.fetch_update(Relaxed, Relaxed, less);
    }
}

/// The notifiers of a space.
pub(super) struct Notifiers<P: Platform> {
    known: Mutex<P::RawLock, Known<P>>,
    /// Lowest bit: whether they are being called; above it the generation.
    calling: Padded<AtomicU64>,
}

/// Notifiers in the order of registration, each with a number that no other has had.
struct Known<P> {
    list: Vec<(u64, Weak<dyn Notifier<P>>)>,
    next: u64,
}

/// The one thread that calls the notifiers, until it is dropped.
struct Calling<'a> {
    calling: &'a AtomicU64,
    word: u64,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        // After a fork in between another thread may be calling. Release: as of a lock.
        let _ = self.calling.compare_exchange(self.word, self.word & !1, Release, Relaxed);
    }
}

impl<P: Platform> Notifiers<P> {
    pub(super) fn new() -> Self {
        let known = Mutex::new(Known { list: Vec::new(), next: 0 });
        Self { known, calling: Padded(AtomicU64::new(0)) }
    }

    /// Makes the calling thread the one that calls notifiers; `None` while another one does.
    fn begin(&self) -> Option<Calling<'_>> {
        let calling = &self.calling.0;
        let word = calling.load(Relaxed);
        // Acquire: as of a lock; pairs with the Release above.
        let begin = || calling.compare_exchange(word, word | 1, Acquire, Relaxed).is_ok();
        (word & 1 == 0 && begin()).then_some(Calling { calling, word: word | 1 })
    }

    /// Clears the mark in a child of a fork, where no other thread is inside a notifier.
    pub(super) fn start_anew(&self) {
        let generation = (self.calling.0.load(Relaxed) >> 1) + 1;
        self.calling.0.store(generation << 1, Relaxed);
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
}

impl<P: Platform> Space<P> {
    /// Has `notifier` called when an allocation finds no addresses, and by age, for as long as the
    /// notifier lives. One that is registered while others are called is called from the next round
    /// on. O(notifiers).
    ///
    /// # Errors
    /// [`AllocError::Metadata`] when there is no memory to remember it; nothing is changed.
    #[doc(alias = "register_vmap_purge_notifier")]
    pub fn register_notifier(&self, notifier: &Arc<dyn Notifier<P>>) -> Result<(), AllocError> {
        let mut known = self.notifiers.known.lock();
        // Numbers stay with their notifiers, so a round that is under way skips none.
        known.list.retain(|(_, known)| known.strong_count() > 0);
        known.list.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        let number = known.next;
        known.next += 1;
        known.list.push((number, Arc::downgrade(notifier)));
        Ok(())
    }

    /// Has every notifier make room. Returns how many pages they say they have freed; 0 while
    /// another thread is at it.
    pub(super) fn notify(&self, pages: u64) -> u64 {
        let Some(_calling) = self.notifiers.begin() else { return 0 };
        self.each_notifier().fold(0, |freed, it| it.make_room(self, pages).saturating_add(freed))
    }

    /// Returns a number that is another one in each child of a fork over which the space was
    /// locked: for notifiers that count the threads at work on them.
    #[doc(hidden)]
    pub fn generation(&self) -> u64 {
        self.need.0.0.load(Relaxed) >> GENERATION_SHIFT
    }

    /// Lets what notifiers keep decay. Returns whether anything is left.
    pub(super) fn decay_notifiers(&self) -> bool {
        self.each_notifier().fold(false, |is_left, it| it.decay(self) | is_left)
    }

    /// Returns the notifiers there are now. The list is not held over a call: it may be changed by
    /// one.
    fn each_notifier(&self) -> impl Iterator<Item = Arc<dyn Notifier<P>>> {
        let (mut next, end) = (0, self.notifiers.known.lock().next);
        core::iter::from_fn(move || {
            let known = self.notifiers.known.lock();
            let index = known.list.partition_point(|(number, _)| *number < next);
            let (number, notifier) = known.list.get(index).filter(|(number, _)| *number < end)?;
            next = number + 1;
            Some(notifier.upgrade())
        })
        .flatten()
    }
}
