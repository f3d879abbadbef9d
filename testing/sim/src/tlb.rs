//! The translations that one CPU remembers, right or not.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use std::collections::BTreeMap;
use vmalloc::{PageRange, Protection};

/// A translation: a page's frame, what may be done with it, and which mapping of the page it
/// belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) frame: u64,
    /// The number of the map call: a page mapped again differs from before even if its frame is the
    /// same.
    pub(crate) epoch: u64,
    pub(crate) protection: Protection,
    pub(crate) backing: Backing,
}

/// The origin of an entry's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    /// The page's own, which `map` took for it.
    Own,
    /// A user's or a device's, which `map_frames` put there.
    Shared {
        /// How often the frame had been given back then.
        life: u64,
    },
}

impl Entry {
    pub(crate) fn is_shared(&self) -> bool {
        self.backing != Backing::Own
    }
}

/// One CPU's translations. Nothing leaves on its own accord unless the capacity is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tlb {
    entries: BTreeMap<u64, Entry>,
    /// By frame: how many entries lead to it.
    reached: Vec<u32>,
    capacity: Option<usize>,
}

impl Tlb {
    /// Returns an empty TLB, of unbounded or of bounded capacity.
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(crate) fn get(&self, page: u64) -> Option<Entry> {
        self.entries.get(&page).copied()
    }

    /// Enters a translation that is not there; replaces a random one when the TLB is full.
    pub(crate) fn fill(&mut self, page: u64, entry: Entry, random: &mut SplitMix64) {
        debug_assert!(!self.entries.contains_key(&page), "page {page:#x} is here already");
        if self.capacity == Some(self.entries.len()) {
            let nth = random.next_u64() % self.entries.len() as u64;
            let replaced = self.entries.keys().nth(nth as usize).copied();
            replaced.into_iter().for_each(|page| self.forget(page));
        }
        self.entries.insert(page, entry);
        let frame = entry.frame as usize;
        if self.reached.len() <= frame {
            self.reached.resize(frame + 1, 0);
        }
        self.reached[frame] += 1;
    }

    fn forget(&mut self, page: u64) {
        if let Some(entry) = self.entries.remove(&page) {
            self.reached[entry.frame as usize] -= 1;
        }
    }

    /// Forgets `range`.
    pub(crate) fn flush(&mut self, range: PageRange) {
        let pages = range.start()..range.end();
        let gone: Vec<u64> = self.entries.range(pages).map(|(&page, _)| page).collect();
        gone.into_iter().for_each(|page| self.forget(page));
    }

    /// Returns the pages that lead to `frame`, with their entries.
    pub(crate) fn reaching(&self, frame: u64) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let reached = self.reached.get(frame as usize).copied().unwrap_or(0) as usize;
        // Takes nothing, and looks at nothing, when the frame is not reached.
        self.entries().filter(move |(_, entry)| entry.frame == frame).take(reached)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.entries.iter().map(|(&page, &entry)| (page, entry))
    }

    pub(crate) fn entries_in(&self, range: PageRange) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.entries.range(range.start()..range.end()).map(|(&page, &entry)| (page, entry))
    }
}
