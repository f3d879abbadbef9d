//! All pools of the program, for those that come from outside: signal handlers and the decay.
//!
//! A list of entries that only grows. An entry shows one pool after the other, or none.
//! - **REG-1** While a reader is counted in an entry, the pool that it saw there stays: a pool's
//!   memory goes after [`Entry::clear`], which waits until no reader is counted.
//! - **REG-2** A reader never waits, and takes no lock: it may be a signal handler. It ends no hold
//!   while it is counted.
//!
//! There are as many entries as there ever were pools at once.

use crate::hold::Hold;
use crate::pool::Pool;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

/// The newest entry.
static FIRST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// The place of a pool.
pub(crate) struct Entry {
    pool: AtomicPtr<Pool>,
    readers: AtomicU32,
    is_taken: AtomicBool,
    /// Constant once the entry is in the list.
    next: Option<&'static Entry>,
}

/// Returns an entry that the caller alone has, and that shows nothing.
pub(crate) fn claim() -> &'static Entry {
    // Acquire: pairs with the Release in `clear`.
    let free = entries().find(|entry| !entry.is_taken.swap(true, Acquire));
    free.unwrap_or_else(add)
}

fn add() -> &'static Entry {
    let entry = Box::leak(Box::new(Entry {
        pool: AtomicPtr::new(ptr::null_mut()),
        readers: AtomicU32::new(0),
        is_taken: AtomicBool::new(true),
        next: None,
    }));
    // Acquire: what the entry before has inside is read through this one.
    let mut first = FIRST.load(Acquire);
    loop {
        // SAFETY: entries are leaked, and shared once they are in the list.
        entry.next = unsafe { first.as_ref() };
        // Release: pairs with the Acquire in `entries`.
        match FIRST.compare_exchange_weak(first, entry, Release, Acquire) {
            Ok(_) => return entry,
            Err(found) => first = found,
        }
    }
}

/// Returns all entries.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    // Acquire: pairs with the Release in `add`.
    // SAFETY: entries are leaked, and shared once they are in the list.
    let first = unsafe { FIRST.load(Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}

impl Entry {
    /// Shows a pool from now on.
    pub(crate) fn show(&self, hold: &Hold) {
        // SeqCst: publishes the pool.
        self.pool.store(hold.as_ptr(), SeqCst);
    }

    /// Shows nothing any more, waits for readers, and leaves the entry to other pools.
    pub(crate) fn clear(&self) {
        // SeqCst, with the orders in `read`: either a reader finds nothing, or it is counted here.
        self.pool.store(ptr::null_mut(), SeqCst);
        while self.readers.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        // Release: pairs with the Acquire in `claim`.
        self.is_taken.store(false, Release);
    }

    /// Reads the pool that is shown. `look` ends no hold.
    pub(crate) fn read<T>(&self, look: impl FnOnce(NonNull<Pool>) -> Option<T>) -> Option<T> {
        self.readers.fetch_add(1, SeqCst);
        let found = NonNull::new(self.pool.load(SeqCst)).and_then(look);
        // SeqCst: what was read comes before the pool goes.
        self.readers.fetch_sub(1, SeqCst);
        found
    }

    /// Returns a hold of the pool that is shown.
    pub(crate) fn hold(&self) -> Option<Hold> {
        // SAFETY: by REG-1 the pool is there.
        self.read(|pool| unsafe { Hold::try_of(pool) })
    }

    /// Forgets the readers that the child of a fork does not have, and has every shard tell of its
    /// next drop: the decay's thread is not there either.
    pub(crate) fn resume_in_child(&self) {
        // Relaxed, all of it: a child has one thread.
        self.readers.store(0, Relaxed);
        if let Some(pool) = NonNull::new(self.pool.load(Relaxed)) {
            // SAFETY: a pool goes after its entry was cleared, and no other thread is there.
            let pool = unsafe { pool.as_ref() };
            pool.shards.iter().for_each(|shard| {
                shard.deactivate();
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_claimed_once_and_used_again() {
        let first = claim();
        let second = claim();
        assert!(!ptr::eq(first, second));
        assert!(first.hold().is_none(), "it shows nothing");
        first.clear();
        let again = claim();
        assert!(entries().any(|entry| ptr::eq(entry, again)));
        second.clear();
        again.clear();
    }
}
