//! The page table: one translation for a page, and the way back from frames that users map.

use crate::tlb::{Backing, Entry};
use std::collections::{BTreeMap, BTreeSet};
use vmalloc::PageRange;

/// All translations.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTable {
    entries: BTreeMap<u64, Entry>,
    /// Frame and page of each entry that `map_frames` made.
    shared: BTreeSet<(u64, u64)>,
}

impl PageTable {
    pub(super) fn get(&self, page: u64) -> Option<Entry> {
        self.entries.get(&page).copied()
    }

    /// Enters a translation, in place of the one that was there.
    pub(super) fn insert(&mut self, page: u64, entry: Entry) {
        self.remove(page);
        self.entries.insert(page, entry);
        if entry.is_shared() {
            self.shared.insert((entry.frame, page));
        }
    }

    pub(super) fn remove(&mut self, page: u64) -> Option<Entry> {
        let entry = self.entries.remove(&page)?;
        self.shared.remove(&(entry.frame, page));
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.entries.iter().map(|(&page, &entry)| (page, entry))
    }

    pub(super) fn entries_in(&self, range: PageRange) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.entries.range(range.start()..range.end()).map(|(&page, &entry)| (page, entry))
    }

    /// Returns the first page of `range` without translation.
    pub(super) fn missing(&self, range: PageRange) -> Option<u64> {
        (range.start()..range.end()).find(|page| !self.entries.contains_key(page))
    }

    /// Returns the pages at which `map_frames` put this life of `frame`.
    pub(super) fn pages_of(&self, frame: u64, life: u64) -> impl Iterator<Item = u64> + '_ {
        let pages = self.shared.range((frame, 0)..=(frame, u64::MAX)).map(|&(_, page)| page);
        pages.filter(move |&page| {
            self.get(page).is_some_and(|entry| entry.backing == Backing::Shared { life })
        })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
