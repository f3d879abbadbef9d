//! Free ranges by their size: the small sizes each have a set of starts, and a bit that says whether it has any.

use std::collections::BTreeSet;

use vmalloc_map::PageRange;

/// Sizes below this have a set each: as many as a word has bits.
const SMALL: u64 = u64::BITS as u64;

/// Sizes and starts of free ranges.
#[derive(Debug)]
pub(crate) struct BySize {
    small: Box<[Starts]>,
    /// The sizes whose set is not empty.
    used: u64,
    /// The larger ranges, as [`key`] orders them.
    large: BTreeSet<u128>,
}

impl BySize {
    pub(crate) fn new() -> Self {
        Self { small: (0..SMALL).map(|_| Starts::default()).collect(), used: 0, large: BTreeSet::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, range: PageRange) {
        let size = range.len();
        if size < SMALL {
            self.small[size as usize].insert(range.start());
            self.used |= 1 << size;
        } else {
            self.large.insert(key(range));
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, range: PageRange) {
        let size = range.len();
        if size < SMALL {
            let starts = &mut self.small[size as usize];
            starts.remove(range.start());
            self.used &= !(u64::from(starts.is_empty()) << size);
        } else {
            self.large.remove(&key(range));
        }
    }

    /// Returns the smallest range of at least `size`, the lowest of equals.
    #[inline]
    pub(crate) fn smallest(&self, size: u64) -> Option<PageRange> {
        let small = self.small_from(size);
        if small != 0 {
            let size = u64::from(small.trailing_zeros());
            return self.small[size as usize].first().and_then(|start| PageRange::from_len(start, size));
        }
        self.large_from(size).next()
    }

    /// Returns all of at least `size`, by size and start.
    pub(crate) fn from(&self, size: u64) -> impl Iterator<Item = PageRange> + '_ {
        let small = self.small_from(size);
        let sizes = (0..SMALL).filter(move |size| small >> size & 1 == 1);
        let starts = sizes.flat_map(|size| self.small[size as usize].iter().map(move |start| (start, size)));
        starts.filter_map(|(start, size)| PageRange::from_len(start, size)).chain(self.large_from(size))
    }

    fn large_from(&self, size: u64) -> impl Iterator<Item = PageRange> + '_ {
        let keys = self.large.range(u128::from(size) << u64::BITS..);
        keys.filter_map(|key| PageRange::from_len(*key as u64, (key >> u64::BITS) as u64))
    }

    #[inline]
    fn small_from(&self, size: u64) -> u64 {
        if size < SMALL { self.used >> size << size } else { 0 }
    }
}

/// Returns what orders ranges by their size and then by their start, in one comparison.
fn key(range: PageRange) -> u128 {
    u128::from(range.len()) << u64::BITS | u128::from(range.start())
}

/// A vector of more starts than this becomes a tree. Moving half of it, 4 KiB, costs less than a tree of as many does.
const MANY: usize = 1024;

/// The starts of the free ranges of one size.
#[derive(Debug)]
enum Starts {
    /// The highest first, so that the lowest, which best fit takes, is removed from the end.
    Few(Vec<u64>),
    Many(BTreeSet<u64>),
}

impl Default for Starts {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// Returns where `start` is among starts of which the highest is first, or belongs.
#[inline]
fn position(starts: &[u64], start: u64) -> usize {
    starts.partition_point(|other| *other > start)
}

impl Starts {
    #[inline]
    fn insert(&mut self, start: u64) {
        match self {
            Self::Few(starts) => {
                // Nothing is there twice.
                let at = position(starts, start);
                starts.insert(at, start);
                if starts.len() > MANY {
                    *self = Self::Many(std::mem::take(starts).into_iter().collect());
                }
            }
            Self::Many(starts) => drop(starts.insert(start)),
        }
    }

    #[inline]
    fn remove(&mut self, start: u64) {
        match self {
            Self::Few(starts) => {
                let at = position(starts, start);
                debug_assert_eq!(starts.get(at), Some(&start));
                starts.remove(at);
            }
            Self::Many(starts) => {
                starts.remove(&start);
                // Not as soon as it could, so that the next range does not turn it back.
                if starts.len() <= MANY / 2 {
                    *self = Self::Few(std::mem::take(starts).into_iter().rev().collect());
                }
            }
        }
    }

    #[inline]
    fn first(&self) -> Option<u64> {
        match self {
            Self::Few(starts) => starts.last().copied(),
            Self::Many(starts) => starts.first().copied(),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        // A tree is larger than nothing.
        matches!(self, Self::Few(starts) if starts.is_empty())
    }

    fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Few(starts) => Box::new(starts.iter().rev().copied()),
            Self::Many(starts) => Box::new(starts.iter().copied()),
        }
    }
}
