//! The list of free ranges: a [`List`], which is vmalloc's area map once they are many.

use core::fmt;

use smallvec::SmallVec;

use crate::list::{self, List};
use crate::{PageLayout, PageRange, PageRangeSub};

#[derive(Clone, Debug)]
pub struct PageList<const N: usize> {
    pub(crate) list: List<N>,
}

#[derive(Debug)]
pub struct PageListError;

impl<const N: usize> PageList<N> {
    pub const fn new() -> Self {
        Self { list: List::Few(SmallVec::new_const()) }
    }

    pub fn iter(&self) -> impl Iterator<Item = PageRange> + use<'_, N> {
        let (few, many) = match &self.list {
            List::Few(few) => (Some(few.iter().copied()), None),
            List::Many(map) => (None, Some(map.free_ranges().map(list::bytes))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    pub fn free_space(&self) -> usize {
        match &self.list {
            List::Few(few) => few.iter().map(|range| range.len().get()).sum(),
            List::Many(map) => map.free_pages() as usize * crate::PAGE_SIZE,
        }
    }

    pub fn add(&mut self, range: PageRange) -> Result<(), PageListError> {
        if let Some(map) = self.list.many() {
            return list::add(map, range).ok_or(PageListError);
        }
        let is_free = self.iter().any(|entry| entry.overlaps(range));
        (!is_free).then_some(()).ok_or(PageListError)?;
        let joins = self.iter().any(|entry| entry.touches(range));
        let Some(few) = self.list.few(!joins) else { return self.add(range) };
        let mut index = few.partition_point(|entry| entry.end() < range.start());
        let mut sum = range;
        // A free range may touch on either side. Both are free ranges no more.
        while let Some(entry) = few.get(index).filter(|entry| entry.touches(sum)) {
            sum = (sum + *entry).ok_or(PageListError)?;
            few.remove(index);
        }
        index = index.min(few.len());
        few.insert(index, sum);
        Ok(())
    }

    pub fn remove(&mut self, range: PageRange) -> Result<(), PageListError> {
        if let Some(map) = self.list.many() {
            return list::remove(map, range).ok_or(PageListError);
        }
        let Some(index) = self.iter().position(|entry| entry.contains(range)) else {
            return Err(PageListError);
        };
        // A range in place may become two.
        let splits =
            self.iter().nth(index).is_some_and(|entry| matches!(entry - range, PageRangeSub::Two(..)));
        let Some(few) = self.list.few(splits) else { return self.remove(range) };
        let entry = &mut few[index];
        match *entry - range {
            PageRangeSub::None => drop(few.remove(index)),
            PageRangeSub::One(a) => *entry = a,
            PageRangeSub::Two(a, b) => {
                *entry = a;
                few.insert(index + 1, b);
            }
        }
        Ok(())
    }

    /// Takes the lowest pages for `layout`.
    pub(crate) fn alloc(&mut self, layout: PageLayout) -> Option<PageRange> {
        match self.list.many() {
            Some(map) => list::alloc(map, layout, None),
            None => self.alloc_by(|range| range.fit(layout)),
        }
    }

    /// Takes the lowest pages for `layout` that are not in `range`.
    pub(crate) fn alloc_outside_of(&mut self, layout: PageLayout, range: PageRange) -> Option<PageRange> {
        match self.list.many() {
            Some(map) => {
                let below = list::alloc(map, layout, Some((0, range.start())));
                below.or_else(|| list::alloc(map, layout, Some((range.end(), usize::MAX))))
            }
            None => self.alloc_by(|entry| {
                let parts = match entry - range {
                    PageRangeSub::Two(below, above) => [Some(below), Some(above)],
                    PageRangeSub::One(part) => [Some(part), None],
                    PageRangeSub::None => [None, None],
                };
                parts.into_iter().flatten().find_map(|part| part.fit(layout))
            }),
        }
    }

    /// Takes the first pages that `f` finds in a free range.
    pub(crate) fn alloc_by(&mut self, f: impl FnMut(PageRange) -> Option<PageRange>) -> Option<PageRange> {
        let fit = self.iter().find_map(f)?;
        self.remove(fit).expect("the pages are part of a free range");
        Some(fit)
    }
}

impl<const N: usize> Default for PageList<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// One range a line.
impl<const N: usize> fmt::Display for PageList<N> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().enumerate().try_for_each(|(nth, range)| {
            if nth > 0 {
                to.write_str("\n")?;
            }
            write!(to, "{range:#}")
        })
    }
}

// The published tests.
#[cfg(test)]
include!(concat!(env!("OUT_DIR"), "/src/page_list.rs"));
