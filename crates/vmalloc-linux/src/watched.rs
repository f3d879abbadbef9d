//! Things that signal handlers look into: spaces that traps are reported of, pools of stacks.
//!
//! A list of entries that only grows. An entry shows one thing after the other, or none.
//! - **WATCH-1** While a reader is counted in an entry, the thing that it saw there stays: the
//!   thread that takes it out waits until no reader is counted.
//! - **WATCH-2** A reader never waits, and takes no lock and no heap.
//!
//! There are as many entries as there ever were things at once. The readers of an entry carry the
//! generation of their process: the child of a fork does not have them, and does not count them.

use crate::fork::locks;
use std::fmt;
use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};

/// A list of things that signal handlers look into, for the life of the program.
pub struct Watched<T: 'static> {
    /// The newest entry.
    first: AtomicPtr<Entry<T>>,
}

/// A place for a thing.
struct Entry<T: 'static> {
    shown: AtomicPtr<T>,
    /// A word of [`Readers`].
    readers: AtomicU64,
    /// Constant once the entry is in the list.
    next: Option<&'static Entry<T>>,
}

/// Shows a thing to signal handlers until it is dropped.
pub struct Watch<T: 'static>(&'static Entry<T>);

impl<T: Send + Sync> Watched<T> {
    /// Returns an empty list.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Shows `thing` from now on. The thing is dropped behind the last look, by the thread that
    /// drops the result.
    pub fn show(&'static self, thing: Box<T>) -> Watch<T> {
        let thing = Box::into_raw(thing);
        // Release: pairs with the load of a reader, which follows the pointer.
        let is_entered = |entry: &&Entry<T>| {
            entry.shown.compare_exchange(ptr::null_mut(), thing, Release, Relaxed).is_ok()
        };
        Watch(self.entries().find(is_entered).unwrap_or_else(|| self.add(thing)))
    }

    /// Returns the first result of `look` for one of the things. A signal handler may call this,
    /// if it may call `look`.
    pub fn find_map<U>(&'static self, mut look: impl FnMut(&T) -> Option<U>) -> Option<U> {
        self.entries().find_map(|entry| entry.with(&mut look))
    }

    fn entries(&self) -> impl Iterator<Item = &'static Entry<T>> {
        // Acquire: pairs with the Release in `add`.
        // SAFETY: entries are leaked, and shared once they are in the list.
        let first = unsafe { self.first.load(Acquire).as_ref() };
        iter::successors(first, |entry| entry.next)
    }

    fn add(&self, thing: *mut T) -> &'static Entry<T> {
        let (shown, readers) = (AtomicPtr::new(thing), AtomicU64::new(0));
        let entry = Box::leak(Box::new(Entry { shown, readers, next: None }));
        // Acquire: what the entry before has inside is read through this one.
        let mut first = self.first.load(Acquire);
        loop {
            // SAFETY: entries are leaked, and shared once they are in the list.
            entry.next = unsafe { first.as_ref() };
            // Release: pairs with the Acquire in `entries`.
            match self.first.compare_exchange_weak(first, entry, Release, Acquire) {
                Ok(_) => return entry,
                Err(found) => first = found,
            }
        }
    }
}

impl<T> Entry<T> {
    fn with<U>(&self, look: impl FnOnce(&T) -> Option<U>) -> Option<U> {
        let mut generation = 0;
        // SeqCst: see the drop of a watch.
        self.change_readers(|readers| {
            // At each try: a child's readers are replaced by none of its parent.
            generation = own_generation();
            Some(readers.entered(generation))
        });
        let shown = self.shown.load(SeqCst);
        // SAFETY: null, or what `show` was given. By WATCH-1 it is there until the count is back.
        let found = unsafe { shown.as_ref() }.and_then(look);
        // SeqCst, and so Release: the look comes before the end of the thing.
        self.change_readers(|readers| readers.left(generation));
        found
    }

    fn change_readers(&self, mut change: impl FnMut(Readers) -> Option<Readers>) {
        let change = |word| change(Readers::from_word(word)).map(Readers::word);
        // The count is left alone where `change` says so.
        let _ = self.readers.fetch_update(SeqCst, Relaxed, change);
    }

    /// Returns true while a thread of this process looks into the thing.
    fn is_read(&self) -> bool {
        let readers = Readers::from_word(self.readers.load(SeqCst));
        readers.count != 0 && readers.generation == own_generation()
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        // SeqCst: of this exchange and a reader's count one comes first. Either the reader sees
        // that the thing is gone, or its count is seen here.
        let thing = self.0.shown.swap(ptr::null_mut(), SeqCst);
        while self.0.is_read() {
            std::thread::yield_now();
        }
        // SAFETY: `show` entered it here alone. No handler has seen it, or it has finished.
        drop(unsafe { Box::from_raw(thing) });
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Returns the generation of this process, as readers carry it.
fn own_generation() -> u32 {
    locks::generation() as u32
}

/// The readers of a thing, all of one process.
#[derive(Clone, Copy, Debug)]
struct Readers {
    generation: u32,
    count: u32,
}

impl Readers {
    fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, count: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.count)
    }

    /// Returns them with one more of this generation. Those of another one are not there.
    fn entered(self, generation: u32) -> Self {
        let others = if self.generation == generation { self.count } else { 0 };
        Self { generation, count: others + 1 }
    }

    /// Returns them with one fewer of this generation; `None` if they are of another one: a signal
    /// handler has interrupted the reader and forked, and there are new readers in its child.
    fn left(self, generation: u32) -> Option<Self> {
        (self.generation == generation).then(|| Self { generation, count: self.count - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::hooks;

    static NUMBERS: Watched<u32> = Watched::new();

    #[test]
    fn places_are_used_again_and_things_found_until_they_go() {
        static ALL: Watched<u32> = Watched::new();
        let count = || ALL.entries().count();
        let [first, second] = [1, 2].map(|number| ALL.show(Box::new(number)));
        let find = |wanted: u32| ALL.find_map(|&number| (number == wanted).then_some(number));
        assert_eq!(([1, 2, 3].map(find), count()), ([Some(1), Some(2), None], 2));
        drop(first);
        let third = ALL.show(Box::new(3));
        assert_eq!(([1, 2, 3].map(find), count()), ([None, Some(2), Some(3)], 2));
        drop((second, third));
        assert_eq!([1, 2, 3].map(find), [None; 3]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it forks")]
    fn a_child_of_a_fork_counts_its_own_readers_alone() {
        hooks::install().unwrap();
        let watch = NUMBERS.show(Box::new(1));
        let entry = watch.0;
        let counts_one = || entry.with(|_| Some(entry.is_read())) == Some(true) && !entry.is_read();
        // As a handler does that interrupts a reader.
        let fork = |_: &u32| {
            // SAFETY: the child takes no lock, and exits.
            let pid = unsafe { libc::fork() };
            Some((pid, pid != 0 || (!entry.is_read() && counts_one())))
        };
        let (pid, well) = entry.with(fork).unwrap();
        let well = well && !entry.is_read() && counts_one();
        if pid == 0 {
            // SAFETY: no conditions.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        assert!(well);
        let mut status = 0;
        // SAFETY: room for a status; the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "the child counts readers that are not there, or misses its own");
    }
}
