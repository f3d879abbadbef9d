//! Map, touch, unmap: a few pages of a pool of 64 MiB, by us and by mmap(2) of a file in memory
//! that holds as much.

use super::shared::{Run, Shared};
use super::{PAGE_BYTES, PAGES, Row, lists, player, rows, space, touch};
use crate::rounds::{Limits, medians};
use std::sync::Arc;
use vmalloc::{Frame, FrameSupply, Protection};
use vmalloc_linux::SharedSpace;
use vmalloc_short::ShortMaps;

/// Pages of the pool: more than caches hold.
const POOL: u64 = 1 << 14;
/// Lists of pages that are gone through where each time others are wanted.
const LISTS: usize = 1 << 14;
/// The ways to map them.
pub const WAYS: [&str; 5] = ["vm_map_ram", "vmap", "mmap a page", "calls alone", "touch alone"];

/// Pages in the supply of a space, and as many in a file.
struct Pool {
    space: SharedSpace,
    short: ShortMaps<SharedSpace>,
    first: Frame,
    /// The page where the machine has the first frame.
    linear: u64,
    shared: Shared,
}

/// Measures everything. A `vmap` leaves mappings of the kernel for its next purge to end, and the
/// kernel takes longer for all of the file meanwhile: so its frames are a pool of their own, and
/// the purge is its own time.
///
/// # Panics
/// When the machine has no memory for the pool, or a call is refused.
pub fn run(limits: &Limits) -> Vec<Row> {
    let (pool, others) = (Pool::new(), Pool::new());
    let of = |(pages, name)| {
        rows(name, &WAYS, |size| {
            let lists = lists(pages, size, POOL, LISTS);
            let of = |pool: &Pool| -> Vec<Vec<Frame>> {
                let frames = |list: &Vec<u64>| list.iter().map(|page| pool.first.plus(*page)).collect();
                lists.iter().map(frames).collect()
            };
            contest(&pool, &others, of, limits)
        })
    };
    PAGES.into_iter().flat_map(of).collect()
}

impl Pool {
    fn new() -> Self {
        let space = space();
        let first = space.platform().take_run(POOL, 1).expect("frames for the pool");
        let linear = space.geometry().linear_map.expect("a supply has them all mapped");
        let short = ShortMaps::of(Arc::clone(&space)).expect("memory for their records");
        let pool = Self {
            space,
            short,
            first,
            linear: linear.start() + first.0,
            shared: Shared::new(POOL as usize),
        };
        // They have memory before anything is measured.
        // SAFETY: the frames were taken just now, and are always mapped there.
        unsafe { touch(pool.linear as usize * PAGE_BYTES, POOL as usize) };
        pool
    }

    fn vm_map_ram(&self, list: &[Frame]) {
        let addr = self.short.map(list).expect("a short mapping");
        // SAFETY: the frames are the pool's, which one thread uses; the mapping ends here, once.
        unsafe {
            touch(addr, list.len());
            self.short.unmap(addr, list.len())
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

    /// Writes to the pages where the machine always has them.
    fn touch_alone(&self, list: &[Frame]) {
        for frame in list {
            let page = self.linear + (frame.0 - self.first.0);
            // SAFETY: the frames are the pool's, which one thread uses.
            unsafe { touch(page as usize * PAGE_BYTES, 1) };
        }
    }

    /// Returns the runs of a list.
    fn runs<'a>(&self, list: &'a [Frame]) -> impl Iterator<Item = Run> + Clone + use<'a> {
        let first = self.first.0;
        let runs = list.chunk_by(|first, next| first.plus(1) == *next);
        runs.map(move |run| (run[0].0 - first, run.len()))
    }
}

/// Returns the ns of a mapping in each of the [`WAYS`].
fn contest(
    pool: &Pool,
    others: &Pool,
    lists: impl Fn(&Pool) -> Vec<Vec<Frame>>,
    limits: &Limits,
) -> Vec<f64> {
    let (own, other) = (lists(pool), lists(others));
    let mut vmap = player(&other, |list| others.vmap(list));
    let purged = |iterations| {
        vmap(iterations);
        others.space.purge().expect("nothing that can't be unmapped");
    };
    let mut players = [
        player(&own, |list| pool.vm_map_ram(list)),
        Box::new(purged),
        player(&own, |list| pool.shared.map_pages(pool.runs(list))),
        player(&own, |list| pool.shared.calls_alone(pool.runs(list))),
        player(&own, |list| pool.touch_alone(list)),
    ];
    medians(&mut players, limits)
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
    use super::super::SIZES;
    use super::*;
    use std::time::Duration;

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
