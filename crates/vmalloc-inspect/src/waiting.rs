//! Where retired areas wait.

use crate::containers::ListLayout;
use crate::error::InspectError;
use crate::memory::{Memory, at, half, nth, word};
use crate::snapshot::AreaState;
use std::collections::HashMap;
use vmalloc::Outline;

/// Where each retired area waits, by its first page. An area that is in none of the lists is on its
/// way from one owner to the next.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) by_page: HashMap<u64, AreaState>,
    /// False if a list could not be read, as it was changing.
    pub(crate) is_whole: bool,
}

/// Reads the lists of a space that has `retired` areas that are not busy.
pub(crate) fn read(memory: &Memory<'_>, outline: &Outline, retired: u64) -> Waiting {
    let Some(lists) = ListLayout::find(memory, outline) else { return Waiting::default() };
    let waiting = Waiting { by_page: HashMap::new(), is_whole: true };
    // Areas may have come since the map was read: a number, and no page size.
    let mut reader = Reader { memory, outline, lists, most: 2 * retired + 4096, waiting };
    for node in 0..outline.nodes[1] {
        let read = reader.node(node);
        reader.note(read);
    }
    let (large, purge, deferred) = (reader.large(), reader.purge(), reader.deferred());
    for read in [large, purge, deferred] {
        reader.note(read);
    }
    reader.waiting
}

struct Reader<'a, 's> {
    memory: &'a Memory<'s>,
    outline: &'a Outline,
    lists: ListLayout,
    /// The most areas of one list.
    most: u64,
    waiting: Waiting,
}

type Read = Result<(), InspectError>;

impl Reader<'_, '_> {
    /// Notes whether a list could be read. The others are read all the same.
    fn note(&mut self, read: Read) {
        self.waiting.is_whole &= read.is_ok();
    }

    fn enter(&mut self, page: u64, state: AreaState) {
        self.waiting.by_page.insert(page, state);
    }

    fn node(&mut self, node: u64) -> Read {
        let [first, _, size, place] = self.outline.nodes;
        let node = at(nth(first, node, size)?, place)?;
        let [cached, pooled, lazy, full] = self.outline.node;
        self.stacks(at(node, cached)?, AreaState::Cached)?;
        self.stacks(at(node, pooled)?, AreaState::Pooled)?;
        self.lazy(at(node, lazy)?, at(node, full)?, AreaState::Lazy)
    }

    /// Reads lazy areas: a list, and those that were full before.
    fn lazy(&mut self, list: u64, full: u64, state: AreaState) -> Read {
        self.ranges(list, state)?;
        let full = self.lists.read(self.memory, full, self.most)?;
        (0..full.len).try_for_each(|number| self.ranges(nth(full.first, number, ListLayout::BYTES)?, state))
    }

    /// Reads areas by their sizes.
    fn stacks(&mut self, stacks: u64, state: AreaState) -> Read {
        let [list, starts, count, size] = self.outline.stacks;
        let stacks = self.lists.read(self.memory, at(stacks, list)?, self.outline.sizes)?;
        for stack in 0..stacks.len {
            let stack = nth(stacks.first, stack, size)?;
            let count = half(&self.memory.bytes(at(stack, count)?, 4)?, 0);
            if count == 0 {
                continue;
            }
            // The list has room for more than there are.
            let starts = self.lists.read(self.memory, at(stack, starts)?, u64::from(u32::MAX))?;
            if u64::from(count) > starts.len.min(self.most) {
                return Err(InspectError::damaged("a stack is longer than it can be"));
            }
            let bytes = self.memory.bytes(starts.first, 8 * u64::from(count))?;
            (0..u64::from(count)).for_each(|nth| self.enter(word(&bytes, 8 * nth), state));
        }
        Ok(())
    }

    /// Reads a list of ranges of pages.
    fn ranges(&mut self, list: u64, state: AreaState) -> Read {
        let [start, _, size] = self.outline.range;
        self.entries(list, size, start, state)
    }

    /// Reads a list of entries of `size` bytes, with the first page at `place` in each.
    fn entries(&mut self, list: u64, size: u64, place: u64, state: AreaState) -> Read {
        let list = self.lists.read(self.memory, list, self.most)?;
        let bytes = match list.len {
            0 => Vec::new(),
            len => self.memory.bytes(list.first, len * size)?,
        };
        (0..list.len).for_each(|nth| self.enter(word(&bytes, nth * size + place), state));
        Ok(())
    }

    fn large(&mut self) -> Read {
        let ([list, area, size], [start, ..]) = (self.outline.large, self.outline.range);
        self.entries(list, size, area + start, AreaState::Cached)
    }

    fn purge(&mut self) -> Read {
        let [taken, size, areas, full, refused] = self.outline.purge;
        // One more than there are nodes.
        let taken = self.lists.read(self.memory, taken, self.outline.nodes[1] + 1)?;
        for nth_node in 0..taken.len {
            let set = nth(taken.first, nth_node, size)?;
            self.lazy(at(set, areas)?, at(set, full)?, AreaState::Purging)?;
        }
        self.ranges(refused, AreaState::Refused)
    }

    /// Reads the areas that are linked through their own first words.
    fn deferred(&mut self) -> Read {
        let mut area = self.memory.word(self.outline.deferred)?;
        for _ in 0..self.most {
            if area == 0 {
                return Ok(());
            }
            self.enter(area >> self.outline.page_shift, AreaState::Lazy);
            area = self.memory.word(area)?;
        }
        Err(InspectError::damaged("the list of deferred frees does not end"))
    }
}
