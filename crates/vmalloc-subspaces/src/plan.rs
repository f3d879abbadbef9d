//! Which sub-space has which range.

use crate::counted::Counted;
use crate::mapped_set::MappedSet;
use crate::{SubspaceError, SubspaceState};
use alloc::vec::Vec;
use lock_api::Mutex;
use vmalloc::{AreaMap, Fit, FitError, Geometry, PageRange, RequestError};

/// The name, the range and the memory of a sub-space, which stay as long as it is there.
pub(crate) struct Part<L> {
    pub(crate) name: &'static str,
    pub(crate) range: PageRange,
    pub(crate) limit_bytes: Option<usize>,
    pub(crate) mapped: Mutex<L, MappedSet>,
}

/// A sub-space, as the plan knows it.
pub(crate) struct Entry<L> {
    pub(crate) part: Counted<Part<L>>,
    pub(crate) state: SubspaceState,
}

impl<L> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self { part: self.part.clone(), state: self.state }
    }
}

/// The ranges of a root's sub-spaces: each is a busy area of the map, an entry in address order,
/// and a part in the order of names. Both lists are of pointers, so that a sub-space that comes or
/// goes among many moves little.
pub(crate) struct Plan<L> {
    map: AreaMap<'static>,
    entries: Vec<Entry<L>>,
    names: Vec<Counted<Part<L>>>,
    /// How many entries linger.
    lingering: usize,
    /// Bytes of a page, for messages.
    page_bytes: u64,
}

impl<L> Plan<L> {
    pub(crate) fn new(geometry: &Geometry) -> Result<Self, FitError> {
        let (map, page_bytes) = (AreaMap::new(geometry.span)?, geometry.page_bytes() as u64);
        Ok(Self { map, entries: Vec::new(), names: Vec::new(), lingering: 0, page_bytes })
    }

    /// Allocates a range for `name`, and enters the part that `part` makes for it.
    pub(crate) fn insert(
        &mut self,
        name: &'static str,
        fit: &Fit,
        part: impl FnOnce(PageRange) -> Result<Counted<Part<L>>, FitError>,
    ) -> Result<Counted<Part<L>>, SubspaceError> {
        let place = match self.place_of(name) {
            Ok(place) => {
                let range = self.addrs(self.names[place].range);
                return Err(SubspaceError::DuplicateName { name, range });
            }
            Err(place) => place,
        };
        self.entries.try_reserve(1).map_err(|_| SubspaceError::Metadata)?;
        self.names.try_reserve(1).map_err(|_| SubspaceError::Metadata)?;
        let range = self.alloc(fit)?;
        match part(range) {
            Ok(part) => {
                let entry = Entry { part: part.clone(), state: SubspaceState::Changing };
                self.entries.insert(self.first_from(range.start()), entry);
                self.names.insert(place, part.clone());
                Ok(part)
            }
            Err(error) => {
                self.free(range);
                Err(self.named(error))
            }
        }
    }

    /// Returns where `name` is among the names, or where it would be.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|part| part.name.cmp(name))
    }

    /// Returns the index of the first entry that starts at `page` or behind.
    fn first_from(&self, page: u64) -> usize {
        self.entries.partition_point(|entry| entry.part.range.start() < page)
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
                let sibling = self.at_or_behind(by.start() / self.page_bytes);
                let sibling = sibling.map_or("", |entry| entry.part.name);
                SubspaceError::Overlap { asked, sibling, range: by }
            }
            FitError::Request(RequestError::OutsideSpace { asked, space }) => {
                SubspaceError::Outside { asked, parent: space }
            }
            FitError::Request(error) => error.into(),
            FitError::NoSpace(error) => error.into(),
            _ => SubspaceError::Metadata,
        }
    }

    /// Frees the range of `part`, and removes its entry.
    pub(crate) fn remove(&mut self, part: &Part<L>) {
        self.set_state(part, SubspaceState::Changing);
        self.entries.remove(self.first_from(part.range.start()));
        if let Ok(place) = self.place_of(part.name) {
            self.names.remove(place);
        }
        self.free(part.range);
    }

    fn free(&mut self, range: PageRange) {
        let freed = self.map.free(range.start());
        debug_assert!(freed.is_ok(), "{range:?} was allocated");
    }

    /// Sets the state of a sub-space that is in the plan.
    pub(crate) fn set_state(&mut self, part: &Part<L>, state: SubspaceState) {
        let index = self.first_from(part.range.start());
        let entry = &mut self.entries[index];
        debug_assert_eq!(entry.part.range, part.range);
        self.lingering -= usize::from(entry.state == SubspaceState::Lingering);
        self.lingering += usize::from(state == SubspaceState::Lingering);
        entry.state = state;
    }

    /// Returns true if a dropped sub-space waits for being reclaimed.
    pub(crate) fn has_lingering(&self) -> bool {
        self.lingering > 0
    }

    /// Marks every sub-space that a thread was making or dropping as lingering. The child of a fork
    /// calls it, since it does not have that thread.
    pub(crate) fn repair(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.state == SubspaceState::Changing) {
            entry.state = SubspaceState::Lingering;
            self.lingering += 1;
        }
    }

    /// Returns the mapped sets of all entries, in address order.
    pub(crate) fn mapped_sets(&self) -> impl Iterator<Item = &Mutex<L, MappedSet>> {
        self.entries.iter().map(|entry| &entry.part.mapped)
    }

    /// Returns the first entry that starts at `page` or behind.
    pub(crate) fn at_or_behind(&self, page: u64) -> Option<&Entry<L>> {
        self.entries.get(self.first_from(page))
    }
}
