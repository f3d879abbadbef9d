//! A few pages of a pool of 64 MiB mapped, touched and unmapped: by us, and by mmap(2) of a file in
//! memory that holds as much.

use super::Row;
use crate::by_hand::{ACCESS, Mapped, PAGE};
use crate::rounds::{Limits, medians};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use vmalloc::{Frame, FrameSupply, Protection, SpaceOptions};
use vmalloc_kit::rng::Rng;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};
use vmalloc_short::ShortMaps;

/// Pages that are shown together.
pub(super) const SIZES: [usize; 3] = [1, 4, 16];
/// Pages of the pool: more than caches hold.
pub(super) const POOL: u64 = 1 << 14;
/// Lists of pages that are gone through where each time others are wanted.
pub(super) const LISTS: usize = 1 << 14;
/// The ways to map them.
const WAYS: [&str; 5] = ["vm_map_ram", "vmap", "mmap a page", "calls alone", "touch alone"];

/// The order of pages that are shown. A single page is consecutive, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// No page follows the one before; the same ones again and again.
    ScatteredSame,
    /// No page follows the one before; others each time.
    ScatteredOthers,
    /// Each page follows the one before; others each time.
    Consecutive,
}

/// All of these, and how tables name them.
pub(super) const ORDERS: [(Order, &str); 3] = [
    (Order::ScatteredSame, "scattered, the same"),
    (Order::ScatteredOthers, "scattered, others"),
    (Order::Consecutive, "consecutive, others"),
];

/// Measures the group. A `vmap` leaves mappings of the kernel for its next purge to end, and the
/// kernel takes longer for all of the file meanwhile: so its frames are a pool of their own, and
/// the purge is its own time.
///
/// # Panics
/// When the machine has no memory for the pool, or a call is refused.
pub fn run(limits: &Limits) -> Vec<Row> {
    let (pool, others, file) = (Pool::new(), Pool::new(), Shared::new());
    let mut rows = Vec::new();
    for (order, name) in ORDERS {
        for size in SIZES {
            let lists = lists(order, size, if order == Order::ScatteredSame { 1 } else { LISTS });
            let (own, other) = (pool.frames(&lists), others.frames(&lists));
            let mut vmap = player(&other, |list| others.vmap(list));
            let purged = |iterations| {
                vmap(iterations);
                others.space.purge().expect("nothing that can't be unmapped");
            };
            let mut players = [
                player(&own, |list| pool.vm_map_ram(list)),
                Box::new(purged),
                player(&lists, |list| file.map_pages(list)),
                player(&lists, |list| file.show(&file.window, list)),
                player(&lists, |list| pool.touch_alone(list)),
            ];
            let times = medians(&mut players, limits);
            rows.extend(WAYS.iter().zip(times).map(|(way, ns)| Row::new(load(size, name), *way, ns, "ns")));
        }
    }
    rows
}

/// Names the load of `size` pages in an order.
pub(super) fn load(size: usize, order: &str) -> String {
    format!("{size} page{}, {order}", if size == 1 { "" } else { "s" })
}

/// Returns a player that goes through `lists`, and maps, touches and unmaps the pages of each by
/// `way`.
pub(super) fn player<'a, T>(
    lists: &'a [Vec<T>],
    mut way: impl FnMut(&[T]) + 'a,
) -> Box<dyn FnMut(usize) + 'a> {
    let mut next = lists.iter().cycle();
    Box::new(move |iterations| next.by_ref().take(iterations).for_each(|list| way(list)))
}

/// Returns the numbers of `size` pages of the pool, each once, in each of `count` lists.
pub(super) fn lists(order: Order, size: usize, count: usize) -> Vec<Vec<u64>> {
    let mut rng = Rng::new(8);
    let list = |_| {
        if order == Order::Consecutive {
            let start = rng.below(POOL - size as u64);
            return (start..start + size as u64).collect();
        }
        let mut list: Vec<u64> = Vec::with_capacity(size);
        while list.len() < size {
            let page = rng.below(POOL);
            let is_next = list.last().is_some_and(|last| last + 1 == page);
            if !is_next && !list.contains(&page) {
                list.push(page);
            }
        }
        list
    };
    (0..count).map(list).collect()
}

/// Writes the first byte of each of `pages` pages at `addr`.
///
/// # Safety
/// They are mapped and writable, their provenance is exposed, and nothing else uses them.
#[inline]
pub(super) unsafe fn touch(addr: usize, pages: usize) {
    // SAFETY: the caller's promise.
    unsafe { crate::by_hand::touch(addr..addr + pages * PAGE) };
}

/// Pages in the supply of a space.
struct Pool {
    space: SharedSpace,
    short: ShortMaps<SharedSpace>,
    first: Frame,
    /// The page where the machine has the first frame.
    linear: u64,
}

impl Pool {
    fn new() -> Self {
        let space = open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
        let first = space.platform().take_run(POOL, 1).expect("frames for the pool");
        let linear = space.geometry().linear_map.expect("a supply has them all mapped");
        let short = ShortMaps::of(Arc::clone(&space)).expect("memory for their records");
        let pool = Self { space, short, first, linear: linear.start() + first.0 };
        // They have memory before anything is measured.
        // SAFETY: the frames were taken just now, and are always mapped there.
        unsafe { touch(pool.linear as usize * PAGE, POOL as usize) };
        pool
    }

    /// Returns the frames of lists of pages.
    fn frames(&self, lists: &[Vec<u64>]) -> Vec<Vec<Frame>> {
        let frames = |list: &Vec<u64>| list.iter().map(|page| self.first.plus(*page)).collect();
        lists.iter().map(frames).collect()
    }

    fn vm_map_ram(&self, frames: &[Frame]) {
        let addr = self.short.map(frames).expect("a short mapping");
        // SAFETY: the frames are the pool's, which one thread uses; the mapping ends here, once.
        unsafe {
            touch(addr, frames.len());
            self.short.unmap(addr, frames.len())
        }
        .expect("what was mapped");
    }

    fn vmap(&self, frames: &[Frame]) {
        let addr = self.space.raw().map(frames, Protection::ReadWrite, None).expect("a mapping");
        // SAFETY: as above.
        unsafe {
            touch(addr, frames.len());
            self.space.raw().unmap(addr)
        }
        .expect("what was mapped");
    }

    /// Writes to the pages where the machine always has them.
    fn touch_alone(&self, list: &[u64]) {
        // SAFETY: the frames are the pool's, which one thread uses.
        list.iter().for_each(|page| unsafe { touch((self.linear + page) as usize * PAGE, 1) });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.space.purge().expect("nothing that can't be unmapped");
        let frames: Vec<_> = (0..POOL).map(|page| self.first.plus(page)).collect();
        // SAFETY: they were taken by `new`; nothing shows them any more.
        unsafe { self.space.platform().give_frames(&frames) };
    }
}

/// A file in memory of as many pages, mapped as a program does without us.
pub(super) struct Shared {
    file: OwnedFd,
    /// Addresses where nothing else is mapped.
    window: Mapped,
}

impl Shared {
    pub(super) fn new() -> Self {
        let file = rustix::fs::memfd_create(c"pool", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        rustix::fs::ftruncate(&file, POOL * PAGE as u64).expect("room for the pool");
        let shared = Self { file, window: reserve(SIZES[SIZES.len() - 1]) };
        shared.map_pages(&(0..POOL).collect::<Vec<_>>());
        shared
    }

    /// Maps pages, touches each, and unmaps all: addresses, a call for each run of consecutive
    /// pages, and one to end it all.
    pub(super) fn map_pages(&self, list: &[u64]) {
        let mapped = reserve(list.len());
        self.show(&mapped, list);
        // SAFETY: all pages were mapped just now, and nothing else knows them.
        unsafe { touch(mapped.addr(), list.len()) };
    }

    /// Makes the calls that map the runs of a list, each over what was mapped before.
    fn show(&self, place: &Mapped, list: &[u64]) {
        let flags = MapFlags::FIXED | MapFlags::SHARED;
        let mut at = with_exposed_provenance_mut::<c_void>(place.addr());
        for run in list.chunk_by(|page, next| page + 1 == *next) {
            let (bytes, offset) = (run.len() * PAGE, run[0] * PAGE as u64);
            // SAFETY: inside the caller's reservation, to whose pages nothing refers.
            unsafe { mmap(at, bytes, ACCESS, flags, &self.file, offset) }.expect("a mapping");
            at = at.wrapping_byte_add(bytes);
        }
    }
}

/// Returns new addresses for `pages` pages, without access.
fn reserve(pages: usize) -> Mapped {
    Mapped::new(pages * PAGE, ProtFlags::empty()).expect("addresses")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lists_name_each_page_once_and_match_their_order() {
        for (size, order) in SIZES.into_iter().flat_map(|size| ORDERS.map(|(order, _)| (size, order))) {
            for list in lists(order, size, LISTS) {
                let runs = list.chunk_by(|a, b| a + 1 == *b).count();
                assert_eq!(runs, if order == Order::Consecutive { 1 } else { size });
                assert!(list.len() == size && list.iter().all(|page| *page < POOL));
            }
        }
    }

    #[test]
    fn every_way_is_measured() {
        let rows = run(&Limits { rounds: 1, window: Duration::from_micros(50) });
        assert_eq!(rows.len(), WAYS.len() * ORDERS.len() * SIZES.len());
        assert!(rows.iter().all(|row| row.value > 0.0), "{rows:?}");
    }
}
