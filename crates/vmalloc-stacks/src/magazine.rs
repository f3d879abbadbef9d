//! A magazine: a few cached stacks, which a thread puts in and takes out by one atomic operation.
//!
//! # Theory
//! ```text
//!            0     1     2     3     4     5         63
//!   words │ 7f00│ 7f31│ 7f62│  0  │  0  │  0  │ … │  0  │      0: empty   1: sealed   else: a stack's bottom
//!                              ▲ top: a hint
//! ```
//!
//! A magazine is an array of words, and not a list. A word is filled by an exchange from empty, and
//! emptied by an exchange to empty. So
//! - **MAG-1** each bottom that was put in is taken out once, by one thread. That thread owns the
//!   stack from then on.
//! - **MAG-2** a sealed word stays sealed. A stack can't be put into a sealed magazine.
//! - **MAG-3** no thread is ever in the middle of anything: each operation that counts is one
//!   exchange. So a magazine is whole in the child of a fork, without a lock or a hook.
//!
//! `top` is where the next stack should go. It is a plain number that threads overwrite: when two
//! of them meet, a stack may lie above it for a while. [`Magazine::take_all`] looks at every word,
//! and so does a [`Magazine::take`] before it says that there is none.
//!
//! Considered instead: a lock around a vector, which costs two exchanges and a hook around forks;
//! and a linked list, whose words lie in the stacks themselves, and which needs counters against
//! the return of an old head.

use crate::sync::AtomicUsize;
use std::array;
use std::sync::atomic::Ordering;

/// Stacks in a magazine. So many are trimmed by one system call, and one interrupt of each CPU.
/// Models of weak memory have fewer.
pub(crate) const CAPACITY: usize = if cfg!(loom) { 2 } else { 64 };

/// A word without a stack.
const EMPTY: usize = 0;

/// A word that takes no stack any more.
const SEALED: usize = 1;

/// Up to [`CAPACITY`] bottoms of stacks. On cache lines of its own, two at a time as the prefetcher
/// takes them.
#[repr(align(128))]
pub(crate) struct Magazine {
    top: AtomicUsize,
    words: [AtomicUsize; CAPACITY],
}

impl Magazine {
    pub(crate) fn new() -> Self {
        Self { top: AtomicUsize::new(0), words: array::from_fn(|_| AtomicUsize::new(EMPTY)) }
    }

    /// Puts a stack in. Returns false where there is no room, or the magazine is sealed. After it
    /// has returned true, the stack is another's: `self` may be gone.
    #[inline]
    pub(crate) fn put(&self, bottom: usize) -> bool {
        debug_assert!(bottom > SEALED);
        // Relaxed, here and below: a hint.
        let top = self.top.load(Ordering::Relaxed);
        let Some(word) = self.words.get(top) else { return false };
        // Before the exchange, after which nothing of `self` may be touched.
        self.top.store(top + 1, Ordering::Relaxed);
        // Release: pairs with the Acquire in `take` and `take_at`. What was done with the stack is
        // over.
        match word.compare_exchange(EMPTY, bottom, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => true,
            Err(found) => found != SEALED && self.put_anywhere(bottom),
        }
    }

    /// Puts a stack where `top` is wrong, because another thread was here at the same time.
    #[cold]
    #[inline(never)]
    fn put_anywhere(&self, bottom: usize) -> bool {
        self.words.iter().enumerate().any(|(index, word)| {
            if word.load(Ordering::Relaxed) != EMPTY {
                return false;
            }
            self.top.store(index + 1, Ordering::Relaxed);
            // Release: as in `put`.
            word.compare_exchange(EMPTY, bottom, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes the stack that was put in last, as far as the hint knows. The magazine is not sealed.
    #[inline]
    pub(crate) fn take_last(&self) -> Option<usize> {
        let index = self.top.load(Ordering::Relaxed).wrapping_sub(1);
        let word = self.words.get(index)?;
        self.top.store(index, Ordering::Relaxed);
        // Acquire: pairs with the Release in `put`.
        let bottom = word.swap(EMPTY, Ordering::Acquire);
        debug_assert_ne!(bottom, SEALED, "no stack is taken from a sealed magazine");
        (bottom > SEALED).then_some(bottom)
    }

    /// Takes a stack, wherever it lies. The magazine is not sealed.
    #[inline]
    pub(crate) fn take(&self) -> Option<usize> {
        self.take_last().or_else(|| self.take_anywhere())
    }

    #[cold]
    #[inline(never)]
    fn take_anywhere(&self) -> Option<usize> {
        (0..CAPACITY).rev().find_map(|index| {
            let bottom = self.take_at(index)?;
            self.top.store(index, Ordering::Relaxed);
            Some(bottom)
        })
    }

    fn take_at(&self, index: usize) -> Option<usize> {
        let word = &self.words[index];
        let bottom = word.load(Ordering::Relaxed);
        // By an exchange from what was seen, for a swap would break the seal. Acquire: pairs with
        // the Release in `put`.
        let is_ours = bottom > SEALED
            && word.compare_exchange(bottom, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_ours.then_some(bottom)
    }

    /// Takes all stacks. Others may be put in meanwhile.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = usize> {
        (0..CAPACITY).rev().filter_map(|index| {
            let bottom = self.take_at(index)?;
            self.top.store(index, Ordering::Relaxed);
            Some(bottom)
        })
    }

    /// Seals every word, and returns the stacks that were in.
    pub(crate) fn seal(&self) -> impl Iterator<Item = usize> {
        // Acquire: pairs with the Release in `put`.
        self.words.iter().map(|word| word.swap(SEALED, Ordering::Acquire)).filter(|&bottom| bottom > SEALED)
    }

    /// Returns whether no stack is in, unless threads change that meanwhile.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) <= SEALED)
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn the_stack_put_in_last_is_taken_first() {
        let magazine = Magazine::new();
        assert_eq!(magazine.take(), None);
        for bottom in 2..2 + CAPACITY {
            assert!(magazine.put(bottom));
        }
        assert!(!magazine.put(999), "it is full");
        for bottom in (2..2 + CAPACITY).rev() {
            assert_eq!(magazine.take(), Some(bottom));
        }
        assert!(magazine.is_empty());
    }

    #[test]
    fn a_wrong_hint_loses_no_stack() {
        let magazine = Magazine::new();
        (2..12).for_each(|bottom| assert!(magazine.put(bottom)));
        magazine.top.store(3, Ordering::Relaxed);
        assert!(magazine.put(50), "word 3 is taken, another is not");
        magazine.top.store(0, Ordering::Relaxed);
        let taken: BTreeSet<_> = std::iter::from_fn(|| magazine.take()).collect();
        assert_eq!(taken, (2..12).chain([50]).collect());
    }

    #[test]
    fn a_seal_holds() {
        let magazine = Magazine::new();
        (2..12).for_each(|bottom| assert!(magazine.put(bottom)));
        assert_eq!(magazine.seal().count(), 10);
        assert!(!magazine.put(20) && !magazine.put_anywhere(20));
        assert_eq!(magazine.take_all().count(), 0);
        assert!(!magazine.put(20), "taking all does not break the seal");
        assert!(magazine.is_empty());
    }

    /// Bottoms that each of four threads moves around.
    const EACH: usize = if cfg!(miri) { 6 } else { 24 };
    const ROUNDS: usize = if cfg!(miri) { 30 } else { 20_000 };

    #[test]
    fn each_stack_has_one_owner() {
        let magazine = Magazine::new();
        let kept = Mutex::new(BTreeSet::new());
        let move_around = |first: usize| {
            let mut own: Vec<usize> = (first..first + EACH).collect();
            for round in 0..ROUNDS {
                match (round + first) % 3 {
                    0 => own.extend(magazine.take()),
                    1 if round % 31 == 0 => own.extend(magazine.take_all()),
                    _ => {
                        let refused = own.pop().filter(|&bottom| !magazine.put(bottom));
                        own.extend(refused);
                    }
                }
            }
            let mut kept = kept.lock().unwrap();
            own.into_iter().for_each(|bottom| assert!(kept.insert(bottom), "{bottom} has two owners"));
        };
        let move_around = &move_around;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || move_around(2 + thread * EACH));
            }
        });
        let mut kept = kept.into_inner().unwrap();
        magazine.seal().for_each(|bottom| assert!(kept.insert(bottom), "{bottom} has two owners"));
        assert_eq!(kept, (2..2 + 4 * EACH).collect());
    }
}
