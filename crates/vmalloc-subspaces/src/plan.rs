//! Which sub-space has which range.

use crate::counted::Counted;
use crate::mapped_set::MappedSet;
use crate::{SubspaceError, SubspaceState};
use alloc::vec::Vec;
use lock_api::Mutex;
use vmalloc::{AreaMap, Fit, FitError, Geometry, PageRange, RequestError};

/// A sub-space, as the plan knows it.
pub(crate) struct Entry<L> {
    pub(crate) name: &'static str,
    pub(crate) range: PageRange,
    pub(crate) limit_bytes: Option<usize>,
    pub(crate) mapped: Counted<Mutex<L, MappedSet>>,
    pub(crate) state: SubspaceState,
}

impl<L> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self { mapped: self.mapped.clone(), ..*self }
    }
}

/// The ranges of a root's sub-spaces: each is a busy area of the map, and an entry, in address
/// order.
pub(crate) struct Plan<L> {
    map: AreaMap<'static>,
    entries: Vec<Entry<L>>,
    /// Bytes of a page, for messages.
    page_bytes: u64,
}

impl<L> Plan<L> {
    pub(crate) fn new(geometry: &Geometry) -> Result<Self, FitError> {
        let (map, page_bytes) = (AreaMap::new(geometry.span)?, geometry.page_bytes() as u64);
        Ok(Self { map, entries: Vec::new(), page_bytes })
    }

    /// Allocates a range for `name`, and enters what `entry` makes for it.
    pub(crate) fn insert(
        &mut self,
        name: &'static str,
        fit: &Fit,
        entry: impl FnOnce(PageRange) -> Result<Entry<L>, FitError>,
    ) -> Result<Entry<L>, SubspaceError> {
        if let Some(other) = self.entries.iter().find(|entry| entry.name == name) {
            return Err(SubspaceError::DuplicateName { name, range: self.addrs(other.range) });
        }
        self.entries.try_reserve(1).map_err(|_| SubspaceError::Metadata)?;
        let range = self.alloc(fit)?;
        match entry(range) {
            Ok(entry) => {
                let index = self.entries.partition_point(|other| other.range.start() < range.start());
                self.entries.insert(index, entry.clone());
                Ok(entry)
            }
            Err(error) => {
                self.remove(range);
                Err(self.named(error))
            }
        }
    }

    /// Allocates a range. Where the limits leave one place alone, the map names the sibling that
    /// has it.
    fn alloc(&mut self, fit: &Fit) -> Result<PageRange, SubspaceError> {
        let only = fit.limits().filter(|limits| limits.len() == fit.pages());
        let result = match only.filter(|range| range.start() % fit.alignment() == 0) {
            Some(range) => self.map.alloc_at(range).map(|()| range),
            None => self.map.alloc(fit),
        };
        result.map_err(|error| self.named(error))
    }

    /// Returns the addresses of pages, for messages.
    fn addrs(&self, pages: PageRange) -> PageRange {
        pages.times(self.page_bytes)
    }

    /// Returns `error` with the name of the sibling in the way.
    fn named(&self, error: FitError) -> SubspaceError {
        match error.in_bytes(self.page_bytes) {
            FitError::Occupied { asked, by } => {
                let sibling = self.entries.iter().find(|entry| self.addrs(entry.range) == by);
                SubspaceError::Overlap { asked, sibling: sibling.map_or("", |entry| entry.name), range: by }
            }
            FitError::Request(RequestError::OutsideSpace { asked, space }) => {
                SubspaceError::Outside { asked, parent: space }
            }
            FitError::Request(error) => error.into(),
            FitError::NoSpace(error) => error.into(),
            _ => SubspaceError::Metadata,
        }
    }

    /// Frees `range`, and removes its entry if there is one.
    pub(crate) fn remove(&mut self, range: PageRange) {
        self.entries.retain(|entry| entry.range != range);
        let freed = self.map.free(range.start());
        debug_assert!(freed.is_ok(), "{range:?} was allocated");
    }

    /// Sets the state of the sub-space in `range`.
    pub(crate) fn set_state(&mut self, range: PageRange, state: SubspaceState) {
        let entry = self.entries.iter_mut().find(|entry| entry.range == range);
        entry.into_iter().for_each(|entry| entry.state = state);
    }

    /// Marks every sub-space that a thread was making or dropping as lingering. The child of a fork
    /// calls it, since it does not have that thread.
    pub(crate) fn repair(&mut self) {
        let left = self.entries.iter_mut().filter(|entry| entry.state == SubspaceState::Changing);
        left.for_each(|entry| entry.state = SubspaceState::Lingering);
    }

    /// Returns the mapped sets of all entries, in address order.
    pub(crate) fn mapped_sets(&self) -> impl Iterator<Item = &Mutex<L, MappedSet>> {
        self.entries.iter().map(|entry| &*entry.mapped)
    }

    /// Returns the first entry that starts at `page` or behind.
    pub(crate) fn at_or_behind(&self, page: u64) -> Option<&Entry<L>> {
        self.entries.iter().find(|entry| entry.range.start() >= page)
    }
}
