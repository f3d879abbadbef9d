//! Purge notifiers: who may free something when addresses run out.

use super::Space;
use crate::platform::Platform;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use lock_api::{Mutex, RawMutex};

/// Somebody who holds areas that he could do without: a cache.
pub trait Notifier: Send + Sync {
    /// Addresses for `pages` pages are wanted, and all that was freed has been given back. Frees what it can of the space that
    /// asks, and says how many pages. No lock is held: it may allocate and free.
    ///
    /// What it says is believed for a few rounds only: an allocation that cannot be met ends in an error, whatever
    /// notifiers promise. Allocations made in here, or by others meanwhile, do not call notifiers again.
    fn make_room(&self, pages: u64) -> u64;
}

/// The notifiers of a space.
pub(super) struct Notifiers<L> {
    list: Mutex<L, Vec<Weak<dyn Notifier>>>,
    /// Held while they are called.
    calling: Mutex<L, ()>,
}

impl<L: RawMutex> Notifiers<L> {
    pub(super) fn new() -> Self {
        Self { list: Mutex::new(Vec::new()), calling: Mutex::new(()) }
    }

    pub(super) fn quiesce(&self) {
        core::mem::forget(self.list.lock());
    }

    /// # Safety
    /// The calling thread, or the one it was forked from, has called `quiesce`.
    pub(super) unsafe fn resume(&self) {
        // SAFETY: by the caller's promise it is held.
        unsafe { self.list.force_unlock() };
    }
}

impl<P: Platform> Space<P> {
    /// Has `notifier` called when an allocation finds no addresses, for as long as it lives; `false` when there is no memory to
    /// remember it.
    #[doc(alias = "register_vmap_purge_notifier")]
    pub fn register_notifier(&self, notifier: &Arc<dyn Notifier>) -> bool {
        let mut list = self.notifiers.list.lock();
        list.retain(|known| known.strong_count() > 0);
        let fits = list.try_reserve(1).is_ok();
        if fits {
            list.push(Arc::downgrade(notifier));
        }
        fits
    }

    /// Lets every notifier make room; how many pages they say they have freed. 0 while somebody else is at it.
    pub(super) fn notify(&self, pages: u64) -> u64 {
        let Some(_calling) = self.notifiers.calling.try_lock() else { return 0 };
        let mut freed = 0u64;
        let mut next = 0;
        // The list is not held over a call: it may be changed by one.
        while let Some(known) = self.nth_notifier(next) {
            if let Some(notifier) = known.upgrade() {
                freed = freed.saturating_add(notifier.make_room(pages));
            }
            next += 1;
        }
        freed
    }

    fn nth_notifier(&self, index: usize) -> Option<Weak<dyn Notifier>> {
        self.notifiers.list.lock().get(index).cloned()
    }
}
