//! Pages that their owner gives up, brought together at other addresses, used and brought back.

use super::shared::Shared;
use super::{PAGE_BYTES, PAGES, Row, SIZES, lists, player, rows, space, touch};
use crate::rounds::{Limits, medians};
use vmalloc::{Buffer, Request, Zeroed};
use vmalloc_linux::SharedSpace;
use vmalloc_linux::gather::GatherArea;

/// Pages of the pool: more than caches hold.
const POOL: usize = 1 << 14;
/// Lists that are gone through.
const LISTS: usize = 1 << 12;

/// The ways.
pub const WAYS: [&str; 3] = ["UFFDIO_MOVE", "memcpy", "mmap a page"];

/// Pages in private memory, and an area to gather them in.
struct Moved {
    pool: GatherArea<SharedSpace>,
    area: GatherArea<SharedSpace>,
}

/// Pages in private memory, and memory to copy them to.
struct Copied {
    pool: Buffer<SharedSpace, Zeroed>,
    window: Buffer<SharedSpace, Zeroed>,
}

/// Measures everything; nothing where the kernel does not move pages.
///
/// # Panics
/// When the machine has no memory for the pools, or a call is refused.
pub fn run(limits: &Limits) -> Vec<Row> {
    let Some(mut moved) = Moved::new() else { return Vec::new() };
    let mut copied = Copied { pool: buffer(POOL), window: buffer(SIZES[2]) };
    copied.pool.fill(1);
    let mmap = Shared::new(POOL);
    let of = |(pages, name)| {
        rows(name, &WAYS, |size| {
            let numbers = |list: Vec<u64>| list.into_iter().map(|page| page as usize).collect();
            let lists: Vec<_> = lists(pages, size, POOL as u64, LISTS).into_iter().map(numbers).collect();
            let mut players = [
                player(&lists, |list| moved.there_and_back(list)),
                player(&lists, |list| copied.there_and_back(list)),
                player(&lists, |list| mmap.map_pages(runs(list).map(|run| (run[0] as u64, run.len())))),
            ];
            medians(&mut players, limits)
        })
    };
    // Others each time.
    PAGES[1..].iter().copied().flat_map(of).collect()
}

fn buffer(pages: usize) -> Buffer<SharedSpace, Zeroed> {
    Buffer::new(space(), &Request::new(pages * PAGE_BYTES)).expect("memory")
}

/// Returns the runs of pages that follow each other.
fn runs(list: &[usize]) -> impl Iterator<Item = &[usize]> + Clone {
    list.chunk_by(|first, next| first + 1 == *next)
}

impl Moved {
    fn new() -> Option<Self> {
        let mut pool = GatherArea::new(space(), POOL).expect("addresses");
        let mut memory = buffer(POOL);
        memory.fill(1);
        let pages: Vec<_> = (0..POOL).map(|page| memory.addr() + page * PAGE_BYTES).collect();
        // SAFETY: the pages are the buffer's, which is not used any more.
        unsafe { pool.gather(0, &pages) }.expect("pages that can be moved");
        let area = GatherArea::new(space(), SIZES[2]).expect("addresses");
        (pool.is_moving() && area.is_moving()).then_some(Self { pool, area })
    }

    fn there_and_back(&mut self, list: &[usize]) {
        let Self { pool, area } = self;
        area.gather_from(0, pool, list).expect("full pages");
        // SAFETY: the pages were just gathered there.
        unsafe { touch(area.addr(), list.len()) };
        let mut from = 0;
        for run in runs(list) {
            let numbers: Vec<_> = (from..from + run.len()).collect();
            pool.gather_from(run[0], area, &numbers).expect("full pages");
            from += run.len();
        }
    }
}

impl Copied {
    fn there_and_back(&mut self, list: &[usize]) {
        for (target, page) in self.window.chunks_exact_mut(PAGE_BYTES).zip(list) {
            target.copy_from_slice(&self.pool[page * PAGE_BYTES..][..PAGE_BYTES]);
        }
        // SAFETY: the window is this function's.
        unsafe { touch(self.window.addr(), list.len()) };
        for (source, page) in self.window.chunks_exact(PAGE_BYTES).zip(list) {
            self.pool[page * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_way_is_measured_where_pages_can_be_moved() {
        let rows = run(&Limits { rounds: 1, window: Duration::from_micros(50) });
        assert!(rows.is_empty() || rows.len() == WAYS.len() * 2);
        assert!(rows.iter().all(|row| row.ns.len() == SIZES.len() && row.ns.iter().all(|ns| *ns > 0.0)));
    }
}
