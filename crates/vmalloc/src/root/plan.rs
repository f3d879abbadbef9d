//! Who has which range.

use super::ChildError;
use super::ledger::Ledger;
use crate::addr::PageRange;
use crate::area_map::AreaMap;
use crate::counted::Counted;
use crate::error::{AllocError, RequestError};
use crate::request::{Fit, Policy};
use alloc::vec::Vec;
use lock_api::Mutex;

/// Where a sub-space is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(Wish);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Exact { start: usize, end: usize },
    Free { bytes: usize, align: usize, policy: Policy },
}

impl Site {
    /// At exactly the addresses `[start, end)`, which are whole pages.
    pub const fn at(start: usize, end: usize) -> Self {
        Self(Wish::Exact { start, end })
    }

    /// At the lowest free range of `bytes` bytes, rounded up to pages.
    pub const fn lowest(bytes: usize) -> Self {
        Self(Wish::Free { bytes, align: 1, policy: Policy::Lowest })
    }

    /// At the highest free range of `bytes` bytes, rounded up to pages.
    pub const fn highest(bytes: usize) -> Self {
        Self(Wish::Free { bytes, align: 1, policy: Policy::Highest })
    }

    /// At a multiple of `align` bytes, a power of two; for an exact range this changes nothing.
    #[must_use]
    pub const fn align(self, align: usize) -> Self {
        match self.0 {
            Wish::Free { bytes, policy, .. } => Self(Wish::Free { bytes, align, policy }),
            Wish::Exact { .. } => self,
        }
    }

    pub(super) fn check(&self, shift: u32) -> Result<Spot, ChildError> {
        let page = 1usize << shift;
        match self.0 {
            Wish::Exact { start, end } => {
                let whole = (start | end) & (page - 1) == 0;
                let range = PageRange::new((start >> shift) as u64, (end >> shift) as u64);
                range.filter(|_| whole).map(Spot::At).ok_or(ChildError::NotPages { start, end })
            }
            Wish::Free { bytes, align, policy } => {
                if !align.is_power_of_two() {
                    return Err(RequestError::AlignNotPowerOfTwo { align: align as u64 }.into());
                }
                let align = (align >> shift).max(1) as u64;
                Ok(Spot::Fit(Fit::new(bytes.div_ceil(page) as u64).align(align).policy(policy)))
            }
        }
    }
}

/// The same in pages.
pub(super) enum Spot {
    At(PageRange),
    Fit(Fit),
}

/// What becomes of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Tenure {
    /// The sub-space lives.
    Live,
    /// A thread is making the sub-space, or taking it back.
    Changing,
    /// It was dropped, but the platform failed to take its memory back. It is asked again when the
    /// next sub-space is made; until it succeeds nobody gets these addresses, nor the name. In a
    /// child of a fork so does a sub-space that another thread was making or taking back.
    Lingering,
}

pub(super) struct Entry<L> {
    pub(super) name: &'static str,
    pub(super) range: PageRange,
    pub(super) limit_bytes: Option<usize>,
    pub(super) ledger: Counted<Mutex<L, Ledger>>,
    pub(super) tenure: Tenure,
}

impl<L> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self { ledger: self.ledger.clone(), ..*self }
    }
}

/// The ranges of a root, and who has them: each is a busy area of the map, and an entry, in address order.
pub(super) struct Plan<L> {
    map: AreaMap<'static>,
    entries: Vec<Entry<L>>,
}

impl<L> Plan<L> {
    pub(super) fn new(span: PageRange) -> Result<Self, AllocError> {
        Ok(Self { map: AreaMap::new(span)?, entries: Vec::new() })
    }

    /// Gives a range to `name`, with an entry that `entry` makes for it.
    pub(super) fn grant(
        &mut self,
        name: &'static str,
        spot: &Spot,
        entry: impl FnOnce(PageRange) -> Result<Entry<L>, AllocError>,
    ) -> Result<Entry<L>, ChildError> {
        if let Some(other) = self.entries.iter().find(|entry| entry.name == name) {
            return Err(ChildError::DuplicateName { name, range: other.range });
        }
        self.entries.try_reserve(1).map_err(|_| ChildError::Metadata)?;
        let range = self.place(spot)?;
        match entry(range) {
            Ok(entry) => {
                let index = self.entries.partition_point(|other| other.range.start() < range.start());
                self.entries.insert(index, entry.clone());
                Ok(entry)
            }
            Err(error) => {
                self.release(range);
                Err(self.told(error))
            }
        }
    }

    fn place(&mut self, spot: &Spot) -> Result<PageRange, ChildError> {
        let result = match spot {
            Spot::At(range) => self.map.alloc_at(*range).map(|()| *range),
            Spot::Fit(fit) => self.map.alloc(fit),
        };
        result.map_err(|error| self.told(error))
    }

    /// The error with the sibling's name.
    fn told(&self, error: AllocError) -> ChildError {
        match error {
            AllocError::Occupied { asked, by } => {
                let sibling = self.entries.iter().find(|entry| entry.range == by);
                ChildError::Overlap { asked, sibling: sibling.map_or("", |entry| entry.name), range: by }
            }
            AllocError::Request(RequestError::OutsideSpace { asked, space }) => {
                ChildError::Outside { asked, parent: space }
            }
            AllocError::Request(error) => error.into(),
            AllocError::NoSpace(error) => error.into(),
            _ => ChildError::Metadata,
        }
    }

    /// Takes the range back, if somebody has it.
    pub(super) fn release(&mut self, range: PageRange) {
        self.entries.retain(|entry| entry.range != range);
        let freed = self.map.free(range.start());
        debug_assert!(freed.is_ok(), "{range:?} was granted");
    }

    pub(super) fn set(&mut self, range: PageRange, tenure: Tenure) {
        let entry = self.entries.iter_mut().find(|entry| entry.range == range);
        entry.into_iter().for_each(|entry| entry.tenure = tenure);
    }

    /// Lets everything linger that a thread was making or taking back: in a child of a fork, which
    /// does not have that thread.
    pub(super) fn mend(&mut self) {
        let left = self.entries.iter_mut().filter(|entry| entry.tenure == Tenure::Changing);
        left.for_each(|entry| entry.tenure = Tenure::Lingering);
    }

    /// The ledgers of all entries, in address order.
    pub(super) fn ledgers(&self) -> impl Iterator<Item = &Mutex<L, Ledger>> {
        self.entries.iter().map(|entry| &*entry.ledger)
    }

    /// The first entry at page `page` or behind.
    pub(super) fn at_or_behind(&self, page: u64) -> Option<&Entry<L>> {
        self.entries.iter().find(|entry| entry.range.start() >= page)
    }
}
