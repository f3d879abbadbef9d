//! States made to be searched badly: many holes, hardly any of which takes an aligned request.

use vmalloc_map::{AreaMap, PageRange};
use vmalloc_model::{Seeded, Source};

/// The first page of every span: a multiple of every alignment.
const BASE: u64 = 1 << 31;

/// Free ranges, ascending and apart from each other; everything else of the span is busy.
pub(crate) struct Holes {
    pub(crate) name: String,
    pub(crate) span: PageRange,
    pub(crate) ranges: Vec<PageRange>,
}

/// In which order the areas are put in: it decides how full the nodes of the tree are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    Ascending,
    Shuffled,
}

impl Holes {
    /// Returns `count` holes: the one with index i covers `first(i)` and `len(i)` pages from it on,
    /// counted from [`BASE`].
    fn each(name: impl Into<String>, count: u64, hole: impl FnMut(u64) -> (u64, u64)) -> Self {
        let range = |(first, len)| PageRange::from_len(BASE + first, len).expect("not empty");
        let ranges: Vec<_> = (0..count).map(hole).map(range).collect();
        let end = ranges[ranges.len() - 1].end() + 1;
        Self { name: name.into(), span: PageRange::new(BASE, end).expect("not empty"), ranges }
    }

    /// Returns these areas with one more free range of `len` pages, at the next multiple of 2^13
    /// pages.
    fn with_last(mut self, len: u64) -> Self {
        let start = self.span.end().next_multiple_of(1 << super::MAX_ORDER);
        let last = PageRange::from_len(start, len).expect("not empty");
        self.ranges.push(last);
        self.span = PageRange::new(self.span.start(), last.end()).expect("not empty");
        self.name += &format!(", {len} pages at the end");
        self
    }

    /// Returns the busy areas, ascending.
    pub(crate) fn areas(&self) -> impl Iterator<Item = PageRange> + '_ {
        let starts = std::iter::once(self.span.start()).chain(self.ranges.iter().map(|range| range.end()));
        let ends = self.ranges.iter().map(|range| range.start()).chain(std::iter::once(self.span.end()));
        starts.zip(ends).filter_map(|(start, end)| PageRange::new(start, end))
    }

    pub(crate) fn map(&self, build: Build) -> AreaMap<'static> {
        let mut map = AreaMap::new(self.span).expect("the heap has room");
        let mut areas: Vec<_> = self.areas().collect();
        if let Build::Shuffled = build {
            shuffle(&mut areas);
        }
        for area in areas {
            map.alloc_at(area).expect("the span was free");
        }
        map
    }
}

fn shuffle<T>(items: &mut [T]) {
    let mut source = Seeded::new(5);
    for last in (1..items.len()).rev() {
        items.swap(last, source.below(last as u64 + 1) as usize);
    }
}

/// Returns all states with `count` holes each.
pub(crate) fn family(count: u64) -> Vec<Holes> {
    let one_page = [("odd", 1), ("even", 0)].map(|(parity, first)| {
        Holes::each(format!("one page at {parity} pages"), count, |i| (2 * i + first, 1))
    });
    let mut family: Vec<_> = one_page.into_iter().collect();
    family.push(Holes::each("odd pages, huge tail", count, |i| (2 * i + 1, 1)).with_last(1 << 40));
    family.push(Holes::each("two of three pages", count, |i| (3 * i + 1, 2)).with_last(1 << 13));
    family.push(Holes::each("three of four pages", count, |i| (4 * i + 1, 3)).with_last(600));
    for (order, pages) in [(3, 5), (6, 16), (9, 1), (9, 8), (9, 100), (13, 64)] {
        family.push(near_miss(count, order, pages).with_last(600));
        family.push(misaligned(count, order).with_last(600));
    }
    for in_a_leaf in [super::DENSE, super::DENSE + 1] {
        family.push(crowds(count, in_a_leaf).with_last(600));
    }
    family.push(crowds_and_a_crossing(count));
    family.push(Holes::each("across leaves", count, |i| (256 * i + 200, 100)).with_last(600));
    family.push(Holes::each("longer than a leaf", count, |i| (1024 * i + 257, 767)).with_last(1 << 20));
    family.push(Holes::each("huge", count, |i| ((i << 16) + 1, 40_000)).with_last(1 << 20));
    family.push(isolated(count, 1 << 20));
    family.push(isolated(count, 1 << 10).with_last(600));
    family.push(random(count).with_last(600));
    family
}

/// Returns free ranges large enough for `pages` pages, and one page short of it at alignment
/// `2^order`.
fn near_miss(count: u64, order: u32, pages: u64) -> Holes {
    let len = (1 << order) - 1 + pages - 1;
    let stride = (len + 2).next_multiple_of(1 << order);
    Holes::each(format!("just no {pages} pages at 2^{order}"), count, |i| (i * stride + 1, len.max(1)))
}

/// Returns free ranges as large as they can be without a page that is aligned to `2^order`.
fn misaligned(count: u64, order: u32) -> Holes {
    let stride = 2 << order;
    Holes::each(format!("no page at 2^{order}"), count, |i| (i * stride + 1, (1 << order) - 1))
}

/// So many holes in each leaf, of 1, 2, 3, … pages, none at a multiple of 4.
fn crowds(count: u64, in_a_leaf: u64) -> Holes {
    let place = |i: u64| (i / in_a_leaf * 256 + i % in_a_leaf * 12 + 1, 1 + i % 3);
    Holes::each(format!("{in_a_leaf} holes a leaf"), count, place)
}

/// Returns as many free ranges in a leaf as are read one by one, the aligned pages of the last all
/// in the next leaf: the attempt to place and cut in one pass gets to that and gives up.
fn crowds_and_a_crossing(count: u64) -> Holes {
    let last = super::DENSE - 1;
    Holes::each(format!("{last} holes a leaf and one across its end"), count, |i| {
        let (leaf, index) = (i / super::DENSE * 1024, i % super::DENSE);
        if index < last { (leaf + index * 12 + 1, 1) } else { (leaf + 253, 700) }
    })
}

/// Returns free ranges of one page each, with a leaf of their own.
pub(crate) fn isolated(count: u64, stride: u64) -> Holes {
    Holes::each(format!("one hole in {stride} pages"), count, |i| (i * stride + 1, 1))
}

/// Returns free ranges of 1…64 pages with 1…64 busy pages between them.
fn random(count: u64) -> Holes {
    let (mut source, mut at) = (Seeded::new(11), 0);
    Holes::each("random", count, |_| {
        let (first, len) = (at + 1 + source.below(64), 1 + source.below(64));
        at = first + len;
        (first, len)
    })
}
