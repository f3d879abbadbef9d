//! The adapter: free ranges in place while they are few, in vmalloc's area map from then on.
//!
//! The original keeps `N` ranges in place and takes heap memory for more. Kernels use that before they have a heap, so this list takes heap memory at
//! the same number of ranges: it becomes an area map then, and stays one.

use alloc::boxed::Box;
use smallvec::SmallVec;
use vmalloc_map::State;
use vmalloc_map::{AreaMap, Fit};

use crate::{PAGE_SIZE, PageLayout, PageRange};

/// Pages of the whole address space. The last address of a range is at most `usize::MAX + 1 - PAGE_SIZE`.
const PAGES: u64 = (usize::MAX / PAGE_SIZE) as u64;

#[derive(Clone, Debug)]
pub(crate) enum List<const N: usize> {
    Few(SmallVec<[PageRange; N]>),
    /// Free pages are free in the map; every other page is busy there.
    Many(Box<AreaMap<'static>>),
}

/// Returns the pages of a range of bytes.
fn pages(range: PageRange) -> vmalloc_map::PageRange {
    let (start, end) = (range.start() / PAGE_SIZE, range.end() / PAGE_SIZE);
    vmalloc_map::PageRange::new(start as u64, end as u64).expect("a page range is not empty")
}

/// Returns the bytes of a range of pages.
pub(crate) fn bytes(range: vmalloc_map::PageRange) -> PageRange {
    PageRange::new(range.start() as usize * PAGE_SIZE, range.end() as usize * PAGE_SIZE)
        .expect("the map has whole pages below the top")
}

/// Returns the map with exactly these free ranges, or `None` without memory for it.
fn map_of(ranges: &[PageRange]) -> Option<Box<AreaMap<'static>>> {
    let all = vmalloc_map::PageRange::new(0, PAGES)?;
    let mut map = AreaMap::new(all).ok()?;
    map.alloc_at(all).ok()?;
    ranges.iter().try_for_each(|range| map.free_part(pages(*range))).ok()?;
    Some(Box::new(map))
}

impl<const N: usize> List<N> {
    /// Returns the ranges in place. Makes a map of them where one more is to come and has no room
    /// there.
    pub(crate) fn few(&mut self, one_more: bool) -> Option<&mut SmallVec<[PageRange; N]>> {
        if let Self::Few(few) = self
            && one_more
            && few.len() >= N
        {
            // Like the original, this has no way to report that the heap is full.
            *self = Self::Many(map_of(few).expect("out of memory"));
        }
        match self {
            Self::Few(few) => Some(few),
            Self::Many(_) => None,
        }
    }

    /// Returns the map, if there is one.
    pub(crate) fn many(&mut self) -> Option<&mut AreaMap<'static>> {
        match self {
            Self::Few(_) => None,
            Self::Many(map) => Some(map),
        }
    }
}

/// Frees the pages of `range`, unless one of them is free.
pub(crate) fn add(map: &mut AreaMap<'static>, range: PageRange) -> Option<()> {
    let range = pages(range);
    // In most calls the range is what one request took.
    if map.find(range.start()) == Some(range) {
        map.free(range.start()).expect("the area is busy");
        return Some(());
    }
    // An area ends with each range handed out, so one call may free several.
    let busy = |page| map.segment(page).filter(|it| it.state == State::Busy).map(|it| it.range);
    let mut page = range.start();
    while page < range.end() {
        page = busy(page)?.end();
    }
    let mut page = range.start();
    while page < range.end() {
        let end = map.find(page)?.end().min(range.end());
        map.free_part(vmalloc_map::PageRange::new(page, end)?).expect("out of memory");
        page = end;
    }
    Some(())
}

/// Takes exactly the pages of `range`, if all are free.
pub(crate) fn remove(map: &mut AreaMap<'static>, range: PageRange) -> Option<()> {
    map.alloc_at(pages(range)).ok()
}

/// Takes the lowest pages for `layout` between two addresses.
pub(crate) fn alloc(
    map: &mut AreaMap<'static>,
    layout: PageLayout,
    limits: Option<(usize, usize)>,
) -> Option<PageRange> {
    let in_pages = |bytes: usize| (bytes / PAGE_SIZE) as u64;
    let mut fit = Fit::new(in_pages(layout.size())).align(in_pages(layout.align()));
    if let Some((start, end)) = limits {
        fit = fit.within(in_pages(start), in_pages(end).min(PAGES));
    }
    map.alloc(&fit).ok().map(bytes)
}

#[cfg(test)]
mod tests {
    use super::List;
    use crate::{PAGE_SIZE, PageLayout, PageList, PageRange};

    fn range(start: usize, end: usize) -> PageRange {
        PageRange::new(start * PAGE_SIZE, end * PAGE_SIZE).unwrap()
    }

    /// A kernel uses its list before it has a heap.
    #[test]
    fn no_heap_is_needed_while_the_ranges_have_room_in_place() {
        let is_in_place = |list: &PageList<2>| matches!(list.list, List::Few(_));
        let mut list = PageList::<2>::new();
        list.add(range(10, 20)).unwrap();
        list.add(range(40, 50)).unwrap();
        // Joined to one that is there, cut at an edge, and taken as a whole.
        list.add(range(20, 30)).unwrap();
        assert_eq!(list.alloc(PageLayout::from_size(PAGE_SIZE).unwrap()), Some(range(10, 11)));
        list.remove(range(40, 50)).unwrap();
        list.add(range(60, 70)).unwrap();
        assert!(is_in_place(&list));
        list.remove(range(62, 64)).unwrap();
        assert!(!is_in_place(&list), "three ranges");
        assert_eq!(list.list.to_vec(), [range(11, 30), range(60, 62), range(64, 70)]);
    }
}

/// For the published tests, which set a list up and look into it: they see the map.
#[cfg(test)]
impl<const N: usize> From<Vec<PageRange>> for List<N> {
    fn from(ranges: Vec<PageRange>) -> Self {
        Self::Many(map_of(&ranges).unwrap())
    }
}

#[cfg(test)]
impl<const N: usize> List<N> {
    pub(crate) fn to_vec(&self) -> Vec<PageRange> {
        match self {
            Self::Few(few) => few.to_vec(),
            Self::Many(map) => map.free_ranges().map(bytes).collect(),
        }
    }
}
