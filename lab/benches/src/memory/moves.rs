//! Pages that their owner gives up, brought together at other addresses, used and brought back:
//! moved by the kernel, copied, or mapped by mmap(2).

use super::Row;
use super::mappings::{LISTS, ORDERS, POOL, SIZES, Shared, lists, load, player, touch};
use crate::by_hand::PAGE;
use crate::rounds::{Limits, medians};
use vmalloc::{Buffer, Request, SpaceOptions, Zeroed};
use vmalloc_linux::gather::GatherArea;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};

/// The ways.
const WAYS: [&str; 3] = ["UFFDIO_MOVE", "memcpy", "mmap a page"];

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

/// Measures the group, other pages each time; nothing where the kernel does not move pages.
///
/// # Panics
/// When the machine has no memory for the pools, or a call is refused.
pub fn run(limits: &Limits) -> Vec<Row> {
    let Some(mut moved) = Moved::new() else { return Vec::new() };
    let mut copied = Copied { pool: buffer(POOL as usize), window: buffer(SIZES[2]) };
    copied.pool.fill(1);
    let (file, mut rows) = (Shared::new(), Vec::new());
    for (order, name) in &ORDERS[1..] {
        for size in SIZES {
            let all = lists(*order, size, LISTS);
            let mut players = [
                player(&all, |list| moved.there_and_back(list)),
                player(&all, |list| copied.there_and_back(list)),
                player(&all, |list| file.map_pages(list)),
            ];
            let times = medians(&mut players, limits);
            rows.extend(WAYS.iter().zip(times).map(|(way, ns)| Row::new(load(size, name), *way, ns, "ns")));
        }
    }
    rows
}

fn buffer(pages: usize) -> Buffer<SharedSpace, Zeroed> {
    Buffer::new(space(), &Request::new(pages * PAGE)).expect("memory")
}

fn space() -> SharedSpace {
    open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space")
}

impl Moved {
    fn new() -> Option<Self> {
        let mut pool = GatherArea::new(space(), POOL as usize).expect("addresses");
        let mut memory = buffer(POOL as usize);
        memory.fill(1);
        let pages: Vec<_> = (0..POOL as usize).map(|page| memory.addr() + page * PAGE).collect();
        // SAFETY: the pages are the buffer's, which is not used any more.
        unsafe { pool.gather(0, &pages) }.expect("pages that can be moved");
        let area = GatherArea::new(space(), SIZES[2]).expect("addresses");
        (pool.is_moving() && area.is_moving()).then_some(Self { pool, area })
    }

    fn there_and_back(&mut self, list: &[u64]) {
        let Self { pool, area } = self;
        let pages: Vec<_> = list.iter().map(|page| *page as usize).collect();
        area.gather_from(0, pool, &pages).expect("full pages");
        // SAFETY: the pages were just gathered there.
        unsafe { touch(area.addr(), list.len()) };
        let mut from = 0;
        for run in pages.chunk_by(|page, next| page + 1 == *next) {
            let numbers: Vec<_> = (from..from + run.len()).collect();
            pool.gather_from(run[0], area, &numbers).expect("full pages");
            from += run.len();
        }
    }
}

impl Copied {
    fn there_and_back(&mut self, list: &[u64]) {
        let place = |page: &u64| *page as usize * PAGE..(*page as usize + 1) * PAGE;
        for (target, page) in self.window.chunks_exact_mut(PAGE).zip(list) {
            target.copy_from_slice(&self.pool[place(page)]);
        }
        // SAFETY: the window is this function's.
        unsafe { touch(self.window.addr(), list.len()) };
        for (source, page) in self.window.chunks_exact(PAGE).zip(list) {
            self.pool[place(page)].copy_from_slice(source);
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
        assert!(rows.is_empty() || rows.len() == WAYS.len() * 2 * SIZES.len());
        assert!(rows.iter().all(|row| row.value > 0.0), "{rows:?}");
    }
}
