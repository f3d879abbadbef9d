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

use brief::SIZES;
use serde::Serialize;
use vmalloc::SpaceOptions;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};

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
