//! Pages that are there already, shown at other addresses, and areas that grow: against what the
//! kernel and the C library offer.
//!
//! | module | what it measures |
//! |---|---|
//! | [`brief`] | map, touch, unmap of a few pages |
//! | [`moves`] | a few pages brought together and back, where their owner gives them up |
//! | [`growth`] | an area that grows from 1 to 64 MiB, page by page |
//! | [`crowd`] | how many short mappings can live at once, and what they take of the kernel |

pub mod brief;
pub mod crowd;
pub mod growth;
pub mod moves;
pub mod shared;

use serde::Serialize;
use vmalloc::SpaceOptions;
use vmalloc_kit::rng::Rng;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};

/// Pages that are shown together.
pub const SIZES: [usize; 3] = [1, 4, 16];

/// The order of pages that are shown. A single page is consecutive, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pages {
    /// No page follows the one before; the same ones again and again.
    ScatteredSame,
    /// No page follows the one before; others each time.
    ScatteredOthers,
    /// Each page follows the one before; others each time.
    Consecutive,
}

/// All of these, and how tables name them.
const PAGES: [(Pages, &str); 3] = [
    (Pages::ScatteredSame, "scattered, the same"),
    (Pages::ScatteredOthers, "scattered, others"),
    (Pages::Consecutive, "consecutive, others"),
];

/// Bytes in a page.
pub const PAGE_BYTES: usize = crate::by_hand::PAGE;

/// A space on Linux memory, as it comes.
///
/// # Panics
/// Where there are no addresses for one, or pages are not of 4 KiB.
pub fn space() -> SharedSpace {
    let space = open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
    assert_eq!(1 << space.geometry().page_shift, PAGE_BYTES, "pages of 4 KiB are counted");
    space
}

/// Writes the first byte of each of `pages` pages at `addr`.
///
/// # Safety
/// They are mapped and writable, their provenance is exposed, and nothing else uses them.
#[inline]
unsafe fn touch(addr: usize, pages: usize) {
    // SAFETY: the caller's promise.
    unsafe { crate::by_hand::touch(addr..addr + pages * PAGE_BYTES) };
}

/// One way to show pages of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which pages.
    pub pages: &'static str,
    /// Which way.
    pub way: &'static str,
    /// CPU time, system time included, in ns, for each of the [`SIZES`].
    pub ns: Vec<f64>,
    /// That over the time of the first way.
    pub ratio: Vec<f64>,
}

/// Returns a row for each way to show pages of one kind; `contest` measures all ways with so many
/// pages.
fn rows(pages: &'static str, ways: &[&'static str], contest: impl FnMut(usize) -> Vec<f64>) -> Vec<Row> {
    let times = SIZES.map(contest);
    let row = |(nth, &way): (usize, &&'static str)| {
        let of = |value: fn(&Vec<f64>, usize) -> f64| times.iter().map(|ns| value(ns, nth)).collect();
        Row { pages, way, ns: of(|ns, nth| ns[nth]), ratio: of(|ns, nth| ns[nth] / ns[0]) }
    };
    ways.iter().enumerate().map(row).collect()
}

/// Returns a player that goes through `lists`, and maps, touches and unmaps the pages of each by
/// `way`.
fn player<'a, T>(lists: &'a [Vec<T>], mut way: impl FnMut(&[T]) + 'a) -> Box<dyn FnMut(usize) + 'a> {
    let mut next = lists.iter().cycle();
    Box::new(move |iterations| next.by_ref().take(iterations).for_each(|list| way(list)))
}

/// Returns the numbers of `size` pages out of a pool of so many, each once, in each of so many
/// lists.
fn lists(pages: Pages, size: usize, pool: u64, count: usize) -> Vec<Vec<u64>> {
    let mut rng = Rng::new(8);
    let list = |_| {
        if pages == Pages::Consecutive {
            let start = rng.below(pool - size as u64);
            return (start..start + size as u64).collect();
        }
        let mut list: Vec<u64> = Vec::with_capacity(size);
        while list.len() < size {
            let page = rng.below(pool);
            let is_next = list.last().is_some_and(|last| last + 1 == page);
            if !is_next && !list.contains(&page) {
                list.push(page);
            }
        }
        list
    };
    (0..if pages == Pages::ScatteredSame { 1 } else { count }).map(list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_each_page_once_and_match_their_kind() {
        for (size, pages) in SIZES.into_iter().flat_map(|size| PAGES.map(|(pages, _)| (size, pages))) {
            for list in lists(pages, size, 1 << 14, 1000) {
                let runs = list.chunk_by(|a, b| a + 1 == *b).count();
                assert_eq!(runs, if pages == Pages::Consecutive { 1 } else { size });
                assert!(list.len() == size && list.iter().all(|page| *page < 1 << 14));
            }
        }
    }
}
