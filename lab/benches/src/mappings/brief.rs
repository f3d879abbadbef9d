//! Map, touch, unmap: a few pages of a pool of 64 MiB, by us and by mmap(2) of a file in memory
//! that holds as much.

use super::{PAGE_BYTES, space, touch};
use crate::rounds::{Limits, medians};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use serde::Serialize;
use std::ptr::null_mut;
use std::sync::Arc;
use vmalloc::{Frame, FrameSupply, Protection, Space};
use vmalloc_lab::rng::Rng;
use vmalloc_linux::Linux;

/// Pages of the pool: more than caches hold.
const POOL: u64 = 1 << 14;
/// Lists of pages that are gone through where each time others are wanted.
const LISTS: usize = 1 << 14;
/// Pages of a mapping.
pub const SIZES: [usize; 3] = [1, 4, 16];

/// Which pages are mapped. A single page is consecutive, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Pages {
    /// No page follows the one before; the same ones again and again.
    ScatteredSame,
    /// No page follows the one before; others each time.
    ScatteredOthers,
    /// Each page follows the one before; others each time.
    Consecutive,
}

/// All of these, and how tables name them.
pub const PAGES: [(Pages, &str); 3] = [
    (Pages::ScatteredSame, "scattered, the same"),
    (Pages::ScatteredOthers, "scattered, others"),
    (Pages::Consecutive, "consecutive, others"),
];

/// The ways to map them.
pub const WAYS: [&str; 3] = ["vm_map_ram", "vmap", "mmap a page"];

/// One way to map pages of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which pages.
    pub pages: &'static str,
    /// Which way.
    pub way: &'static str,
    /// CPU time of a mapping, system time included, in ns, for each of the [`SIZES`].
    pub ns: Vec<f64>,
    /// That over the time of `vm_map_ram`.
    pub ratio: Vec<f64>,
}

/// Pages in the supply of a space, and as many in a file.
struct Pool {
    space: Arc<Space<Linux>>,
    first: Frame,
    file: OwnedFd,
}

/// Measures everything.
///
/// # Panics
/// When the machine has no memory for the pool, or a call is refused.
pub fn run(limits: &Limits) -> Vec<Row> {
    let pool = Pool::new();
    let mut rows = Vec::new();
    for (pages, name) in PAGES {
        let row = |way| Row { pages: name, way, ns: Vec::new(), ratio: Vec::new() };
        let mut group = WAYS.map(row);
        for size in SIZES {
            let times = pool.contest(&lists(pages, size, pool.first), limits);
            for (row, ns) in group.iter_mut().zip(&times) {
                row.ns.push(*ns);
                row.ratio.push(ns / times[0]);
            }
        }
        rows.extend(group);
    }
    rows
}

/// The pages of each mapping in turn.
fn lists(pages: Pages, size: usize, first: Frame) -> Vec<Vec<Frame>> {
    let mut rng = Rng::new(8);
    let count = if pages == Pages::ScatteredSame { 1 } else { LISTS };
    let list = |_| match pages {
        Pages::Consecutive => {
            let start = rng.below(POOL - size as u64);
            (0..size as u64).map(|page| first.plus(start + page)).collect()
        }
        _ => scattered(&mut rng, size, first),
    };
    (0..count).map(list).collect()
}

fn scattered(rng: &mut Rng, size: usize, first: Frame) -> Vec<Frame> {
    let mut list: Vec<Frame> = Vec::with_capacity(size);
    while list.len() < size {
        let frame = first.plus(rng.below(POOL));
        let is_next = list.last().is_some_and(|last| last.plus(1) == frame);
        if !is_next && !list.contains(&frame) {
            list.push(frame);
        }
    }
    list
}

impl Pool {
    fn new() -> Self {
        let space = space();
        let first = space.platform().take_run(POOL, 1).expect("frames for the pool");
        let linear = space.geometry().linear_map.expect("a supply has them all mapped");
        let file = rustix::fs::memfd_create(c"pool", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        rustix::fs::ftruncate(&file, POOL * PAGE_BYTES as u64).expect("room for the pool");
        let pool = Self { space, first, file };
        // Both have memory before anything is measured.
        // SAFETY: the frames were taken just now, and are always mapped there.
        unsafe { touch((linear.start() + first.0) as usize * PAGE_BYTES, POOL as usize) };
        pool.map_file(null_mut(), POOL as usize, 0, MapFlags::empty(), |addr| {
            // SAFETY: so many pages of the file were mapped there.
            unsafe { touch(addr, POOL as usize) };
        });
        pool
    }

    /// Maps pages of the file, and unmaps them again.
    fn map_file(
        &self,
        addr: *mut core::ffi::c_void,
        pages: usize,
        from: u64,
        flags: MapFlags,
        then: impl FnOnce(usize),
    ) {
        let addr = self.show(addr, pages, from, flags);
        then(addr.expose_provenance());
        // SAFETY: the range was mapped here, and `then` is done with it.
        unsafe { munmap(addr, pages * PAGE_BYTES) }.expect("a mapping to unmap");
    }

    fn show(
        &self,
        addr: *mut core::ffi::c_void,
        pages: usize,
        from: u64,
        flags: MapFlags,
    ) -> *mut core::ffi::c_void {
        let (bytes, access) = (pages * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        let offset = from * PAGE_BYTES as u64;
        // SAFETY: where `flags` fix the address it is in a reservation of the caller's; else
        // nothing is replaced.
        unsafe { mmap(addr, bytes, access, flags | MapFlags::SHARED, &self.file, offset) }.expect("a mapping")
    }

    /// Returns the ns of a mapping in each of the [`WAYS`].
    fn contest(&self, lists: &[Vec<Frame>], limits: &Limits) -> Vec<f64> {
        let mut players = [
            player(lists, |list| self.vm_map_ram(list)),
            player(lists, |list| self.vmap(list)),
            player(lists, |list| self.mmap_pages(list)),
        ];
        medians(&mut players, limits)
    }

    fn vm_map_ram(&self, list: &[Frame]) {
        let addr = self.space.raw().map_short(list).expect("a short mapping");
        // SAFETY: the frames are the pool's, which one thread uses; the mapping ends here, once.
        unsafe {
            touch(addr, list.len());
            self.space.raw().unmap_short(addr, list.len())
        }
        .expect("what was mapped");
    }

    fn vmap(&self, list: &[Frame]) {
        let addr = self.space.raw().map(list, Protection::ReadWrite, None).expect("a mapping");
        // SAFETY: as above.
        unsafe {
            touch(addr, list.len());
            self.space.raw().unmap(addr)
        }
        .expect("what was mapped");
    }

    /// Maps the list as a program does without us: addresses, a call for each run of pages, and one
    /// to end it all.
    fn mmap_pages(&self, list: &[Frame]) {
        let bytes = list.len() * PAGE_BYTES;
        // SAFETY: new addresses, that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let base = base.expect("addresses");
        let mut at = base;
        for run in list.chunk_by(|first, next| first.plus(1) == *next) {
            self.show(at, run.len(), run[0].0 - self.first.0, MapFlags::FIXED);
            at = at.wrapping_byte_add(run.len() * PAGE_BYTES);
        }
        // SAFETY: all pages were mapped above, and nothing else knows them.
        unsafe { touch(base.expose_provenance(), list.len()) };
        // SAFETY: the addresses are this function's.
        unsafe { munmap(base, bytes) }.expect("a mapping to unmap");
    }
}

/// Returns a player that goes through `lists`, and maps, touches and unmaps the pages of each by
/// `way`.
fn player<'a>(lists: &'a [Vec<Frame>], way: impl Fn(&[Frame]) + 'a) -> Box<dyn FnMut(usize) + 'a> {
    let mut next = lists.iter().cycle();
    Box::new(move |iterations| next.by_ref().take(iterations).for_each(|list| way(list)))
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.space.purge().expect("nothing that can't be unmapped");
        let frames: Vec<_> = (0..POOL).map(|page| self.first.plus(page)).collect();
        // SAFETY: they were taken by `new`; nothing shows them any more.
        unsafe { self.space.platform().give_frames(&frames) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn page_lists_match_their_kind() {
        let first = Frame(1000);
        for size in SIZES {
            for (pages, _) in PAGES {
                for list in lists(pages, size, first) {
                    let runs = list.chunk_by(|a, b| a.plus(1) == *b).count();
                    assert_eq!(runs, if pages == Pages::Consecutive { 1 } else { size });
                    assert!(
                        list.len() == size && list.iter().all(|frame| (1000..1000 + POOL).contains(&frame.0))
                    );
                }
            }
        }
    }

    #[test]
    fn every_way_is_measured() {
        let rows = run(&Limits { rounds: 1, window: Duration::from_micros(50) });
        assert_eq!(rows.len(), WAYS.len() * PAGES.len());
        for row in rows {
            assert!(row.ns.len() == SIZES.len() && row.ns.iter().all(|ns| *ns > 0.0), "{row:?}");
            assert_eq!(row.ratio == [1.0; SIZES.len()], row.way == "vm_map_ram", "{row:?}");
        }
    }
}
