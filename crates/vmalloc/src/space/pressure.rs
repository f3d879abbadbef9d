//! Need: allocations that found no room; and the notifiers, which may free something for them, and
//! let decay what they keep.
//!
//! # Forks
//! A child of a fork lacks the threads that were in need, or inside a notifier, in its parent. The
//! counts of both carry a *generation*, which the child raises. A thread undoes only what it did in
//! the generation that it was in: the thread that forked may itself have been in need.

use super::Space;
use crate::platform::Platform;
use crate::sync::AtomicU64;
use crate::wait::{Apart, lacks_one, lengthen};
use crate::{AllocError, SpaceError};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use lock_api::Mutex;

/// Keeps areas of a space that it could do without: a cache, a pool.
///
/// The space refers weakly to a notifier, and strongly during a call. So a notifier may be dropped
/// by the end of a call: one that has to do something then finds that out by
/// [`Arc::into_inner`].
///
/// A platform may call it on a thread of its own that drains the space. There it must not fork:
/// `vmalloc-linux` stops a program that does, for the fork would wait for that very drain.
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

    /// Returns the number of the generation.
    pub(super) fn generation(&self) -> u64 {
        self.0.load(Relaxed) >> GENERATION_SHIFT
    }

    /// Drops the count in a child of a fork, where no other thread is inside.
    pub(super) fn start_anew(&self) {
        self.0.store((self.generation() + 1) << GENERATION_SHIFT, Relaxed);
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
pub(super) struct Notifiers<P: Platform> {
    known: Mutex<P::RawLock, Known<P>>,
    /// The one thread that has them make room.
    pub(super) calling: Apart<Inside>,
}

/// Notifiers in the order of registration, each with a number that no other has had.
struct Known<P> {
    list: Vec<(u64, Weak<dyn Notifier<P>>)>,
    next: u64,
}

impl<P: Platform> Notifiers<P> {
    pub(super) fn new() -> Result<Self, SpaceError> {
        let known = Mutex::new(Known { list: Vec::new(), next: 0 });
        Ok(Self { known, calling: Apart::new(Inside::default)? })
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

    /// Has `notifier` called from the next round on: see [`Space::register_notifier`].
    pub(super) fn register(&self, notifier: &Arc<dyn Notifier<P>>) -> Result<(), AllocError> {
        // Numbers stay with their notifiers, so a round that is under way skips none.
        while let Some(gone) = self.take_gone() {
            drop(gone);
        }
        let mut known = self.known.lock();
        if !lengthen(&mut known, |known| &mut known.list, |known| lacks_one(&known.list)) {
            return Err(AllocError::Metadata);
        }
        let number = known.next;
        known.next += 1;
        known.list.push((number, Arc::downgrade(notifier)));
        Ok(())
    }

    /// Takes a notifier out of the list that is dropped already.
    fn take_gone(&self) -> Option<(u64, Weak<dyn Notifier<P>>)> {
        let mut known = self.known.lock();
        let place = known.list.iter().position(|(_, known)| known.strong_count() == 0)?;
        Some(known.list.remove(place))
    }

    /// Has every notifier make room. Returns how many pages they say they have freed; 0 while
    /// another thread is at it.
    pub(super) fn make_room(&self, space: &Space<P>, pages: u64) -> u64 {
        let Some(_calling) = self.calling.enter_alone() else { return 0 };
        self.each().fold(0, |freed, it| it.make_room(space, pages).saturating_add(freed))
    }

    /// Lets what notifiers keep decay. Returns whether anything is left.
    pub(super) fn decay(&self, space: &Space<P>) -> bool {
        self.each().fold(false, |is_left, it| it.decay(space) | is_left)
    }

    /// Returns the notifiers there are now. The list is not held over a call: it may be changed by
    /// one.
    fn each(&self) -> impl Iterator<Item = Arc<dyn Notifier<P>>> {
        let (mut next, end) = (0, self.known.lock().next);
        core::iter::from_fn(move || {
            let known = self.known.lock();
            let index = known.list.partition_point(|(number, _)| *number < next);
            let (number, notifier) = known.list.get(index).filter(|(number, _)| *number < end)?;
            next = number + 1;
            Some(notifier.upgrade())
        })
        .flatten()
    }
}
