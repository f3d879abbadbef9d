//! The state of all windows: nodes, heaps, and the one count of lazy pages.

use super::drain::Decay;
use super::node::{Area, Node, Pools};
use crate::design::{Refusal, Setup};
use crate::designs::areas::{Group, Want};
use crate::designs::augmented::Augmented;
use crate::designs::pair::FreeSpace;
use crate::lock::{Mutex, SleepMutex};
use std::ops::Deref;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use vmalloc::PageRange;
use vmalloc::sync::AtomicU64;

/// Pages of a zone.
const ZONE_PAGES: u64 = 16;

/// A window: its pages, and those of them that are free.
pub(super) struct Window {
    pub(super) span: PageRange,
    pub(super) heap: Padded<Mutex<Augmented>>,
    pub(super) missed_fits: AtomicU64,
}

/// See the [module](self).
pub(super) struct Shared {
    /// By address.
    pub(super) windows: Box<[Window]>,
    /// The index of the window whose areas are pooled.
    pub(super) main: usize,
    lazy_max: u64,
    pub(super) nodes: Box<[Node]>,
    pub(super) purging: Padded<SleepMutex<()>>,
    /// Not 0 if a free has found too much lazy since the last drain began.
    pub(super) asked: Padded<AtomicU64>,
    /// `N2`. Sequentially consistent where it rises and where it decides; both sides also hold
    /// locks in between.
    pub(super) lazy: Padded<AtomicU64>,
    pub(super) purges: AtomicU64,
    pub(super) longest_hold: AtomicU64,
}

/// Something on a cache line of its own: frees write it, and what is beside is read by all calls.
#[repr(align(64))]
pub(super) struct Padded<T>(T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Shared {
    /// Builds empty windows; the largest is the main one.
    pub(super) fn new(setup: &Setup, spans: &[PageRange]) -> Self {
        assert!((1..=128).contains(&setup.cpus), "{} CPUs", setup.cpus);
        let window = |&span: &PageRange| Window {
            span,
            heap: Padded(Mutex::new(Augmented::new(span))),
            missed_fits: AtomicU64::new(0),
        };
        let main = (0..spans.len()).max_by_key(|&at| spans[at].len()).expect("a window");
        Self {
            windows: spans.iter().map(window).collect(),
            main,
            lazy_max: setup.lazy_max_pages,
            nodes: (0..setup.cpus).map(|_| Node::new()).collect(),
            purging: Padded(SleepMutex::new(())),
            asked: Padded(AtomicU64::new(0)),
            lazy: Padded(AtomicU64::new(0)),
            purges: AtomicU64::new(0),
            longest_hold: AtomicU64::new(0),
        }
    }

    /// The node of a zone.
    pub(super) fn home(&self, page: u64) -> usize {
        (page / ZONE_PAGES % self.nodes.len() as u64) as usize
    }

    /// Returns true if a purge may keep an area in a pool: one of the main window, and small
    /// enough.
    pub(super) fn pools_take(&self, area: PageRange) -> bool {
        Pools::take_in(area) && self.windows[self.main].span.covers(&area)
    }

    pub(super) fn record(&self, range: PageRange, asked: usize) {
        self.nodes[self.home(range.start())].record(Area { range, asked: asked as u8 });
    }

    /// Takes a place from the heap of a window, where there is no room after purges.
    pub(super) fn take(&self, window: usize, want: &Want) -> Result<PageRange, Refusal> {
        if let Some(place) = self.windows[window].heap.lock().take(want) {
            return Ok(place);
        }
        self.take_under_pressure(window, |heap| heap.take(want), |heap| heap.ranges().holds(want))
    }

    /// Purges and empties all pools until `take` has found a place or nothing is left to come back:
    /// `N3`.
    fn take_under_pressure<T>(
        &self,
        window: usize,
        take: impl Fn(&mut Augmented) -> Option<T>,
        missed: impl FnOnce(&Augmented) -> bool,
    ) -> Result<T, Refusal> {
        let Window { heap, missed_fits, .. } = &self.windows[window];
        loop {
            let purging = self.purging.lock();
            self.drain(&purging, Decay::All);
            let pools: Vec<_> = self.nodes.iter().map(|node| node.pools.lock()).collect();
            let mut heap = heap.lock();
            if let Some(taken) = take(&mut heap) {
                return Ok(taken);
            }
            if self.lazy.load(SeqCst) == 0 && pools.iter().all(|pools| pools.is_empty()) {
                missed_fits.fetch_add(missed(&heap).into(), Relaxed);
                return Err(Refusal::NoSpace);
            }
        }
    }

    pub(super) fn take_group(&self, window: usize, group: &Group<'_>) -> Result<u64, Refusal> {
        let take = |heap: &mut Augmented| {
            let base = heap.ranges().highest_base(group)?;
            group.parts(base).for_each(|part| heap.take_exactly(part));
            Some(base)
        };
        let taken = take(&mut self.windows[window].heap.lock());
        taken.map_or_else(|| self.take_under_pressure(window, take, |_| false), Ok)
    }

    /// Makes a busy area lazy: `N2`.
    pub(super) fn retire(&self, start: u64) -> Option<u64> {
        let node = &self.nodes[self.home(start)];
        let mut busy = node.busy.lock();
        let id = busy.at(start)?;
        let area = Area { range: busy.range(id), asked: busy.tag(id) };
        let pages = area.range.len();
        let lazy = self.lazy.fetch_add(pages, SeqCst) + pages;
        busy.remove(id);
        drop(busy);
        node.lazy.lock().push(area);
        Some(lazy)
    }

    /// Areas of a group leave the busy trees, all or none: the nodes concerned are locked together.
    pub(super) fn retire_group(&self, areas: &[PageRange]) -> Option<u64> {
        let mut homes: Vec<_> = areas.iter().map(|area| self.home(area.start())).collect();
        homes.sort_unstable();
        homes.dedup();
        let mut busy: Vec<_> = homes.iter().map(|&home| self.nodes[home].busy.lock()).collect();
        let at = |area: &PageRange| homes.binary_search(&self.home(area.start())).expect("a home");
        let is_busy = |area: &PageRange| {
            let tree = &busy[at(area)];
            tree.at(area.start()).is_some_and(|id| tree.range(id) == *area)
        };
        if !areas.iter().all(is_busy) {
            return None;
        }
        let pages: u64 = areas.iter().map(PageRange::len).sum();
        let lazy = self.lazy.fetch_add(pages, SeqCst) + pages;
        for area in areas {
            let tree = &mut busy[at(area)];
            let id = tree.at(area.start()).expect("it was there");
            let asked = tree.tag(id);
            tree.remove(id);
            self.nodes[self.home(area.start())].lazy.lock().push(Area { range: *area, asked });
        }
        Some(lazy)
    }

    /// Drains if too much is lazy. While a drain is under way, that thread is asked for another
    /// one.
    pub(super) fn drain_if_much(&self, lazy: u64) {
        if lazy <= self.lazy_max {
            return;
        }
        // Before the try: a thread that does not get the lock has asked its holder, who looks again
        // after unlocking.
        self.asked.store(1, SeqCst);
        while self.asked.load(SeqCst) != 0 {
            let Some(purging) = self.purging.try_lock() else { return };
            if self.asked.swap(0, SeqCst) != 0 {
                self.drain(&purging, Decay::Quarter);
            }
        }
    }
}
