//! The slots that were freed lately, by key: a user, or a CPU.
//!
//! Only a hint: an entry may name a slot that is busy, vacant or another user's by now. The caller
//! tries to remove the slot from the set of free ones, and that decides.

use crate::sync::{AtomicU64, LINE, Lines};
use core::sync::atomic::Ordering::Relaxed;

/// Entries of a ring. With its position it is a line of the cache, which is a bucket.
const RING: u64 = LINE as u64 - 1;

/// Rings of entries, in buckets by key.
#[derive(Debug)]
pub(crate) struct Recent {
    lines: Lines,
}

impl Recent {
    /// Returns `buckets` empty rings; `None` without memory.
    pub(crate) fn new(buckets: usize) -> Option<Self> {
        Lines::new(buckets).map(|lines| Self { lines })
    }

    /// Notes that the slot `index` was freed by `key`, in this bucket.
    pub(crate) fn push(&self, bucket: usize, key: u32, index: usize) {
        let (position, ring) = self.ring(bucket);
        let (last, entry) = (position.load(Relaxed), entry(key, index));
        if ring[(last % RING) as usize].load(Relaxed) != entry {
            let next = last.wrapping_add(1) % RING;
            ring[next as usize].store(entry, Relaxed);
            position.store(next, Relaxed);
        }
    }

    /// Returns the first slot that `key` freed lately, the last first, and that `remove` accepts.
    pub(crate) fn find(
        &self,
        bucket: usize,
        key: u32,
        mut remove: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let (position, ring) = self.ring(bucket);
        let last = position.load(Relaxed) % RING;
        let newest_first = (0..RING).map(|back| (last + RING - back) % RING);
        let mut entries = newest_first.map(|at| ring[at as usize].load(Relaxed));
        entries.find_map(|word| index(word, key).filter(|index| remove(*index)))
    }

    /// Returns the position and the ring of a bucket.
    fn ring(&self, bucket: usize) -> (&AtomicU64, &[AtomicU64]) {
        let line = self.lines.get(bucket % self.lines.len());
        (&line[0], &line[1..])
    }
}

/// Returns the word for a slot: never 0, which is no entry.
fn entry(key: u32, index: usize) -> u64 {
    u64::from(key) << 32 | (index as u64 + 1)
}

/// Returns the slot that a word names, if it is one of `key`.
fn index(word: u64, key: u32) -> Option<usize> {
    let low = word as u32;
    (word >> 32 == u64::from(key) && low != 0).then(|| low as usize - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_slot_of_a_key_comes_first() {
        let recent = Recent::new(4).unwrap();
        assert_eq!(recent.find(1, 0, |_| true), None);
        [10, 11, 12].iter().for_each(|index| recent.push(1, 7, *index));
        recent.push(1, 8, 13);
        assert_eq!(recent.find(1, 7, |_| true), Some(12));
        assert_eq!(recent.find(1, 7, |index| index != 12), Some(11));
        assert_eq!(recent.find(1, 8, |_| true), Some(13));
        assert_eq!((recent.find(1, 9, |_| true), recent.find(2, 7, |_| true)), (None, None));
    }

    #[test]
    fn a_ring_remembers_seven() {
        let recent = Recent::new(1).unwrap();
        (0..9).for_each(|index| recent.push(0, 0, index));
        // A slot that goes back and forth takes one place.
        (0..9).for_each(|_| recent.push(0, 0, 8));
        let mut seen = [0; 7];
        let mut places = seen.iter_mut();
        let mut note = |index| *places.next().expect("7 entries") = index;
        assert_eq!(
            recent.find(0, 0, |index| {
                note(index);
                false
            }),
            None
        );
        assert_eq!(seen, [8, 7, 6, 5, 4, 3, 2]);
    }
}
