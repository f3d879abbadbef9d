//! Growth: a space that becomes larger than it has to be gives cached memory back.
//!
//! Where memory is dear, a free caches it whenever the budget allows that, for the space is no
//! larger then. After a miss it is, and so the miss makes as much memory go as comes, the longest
//! unused first, for the pages by which
//!
//! - what is in use exceeds the most that there ever was;
//! - the space exceeds the most that was in use and a third of it.
//!
//! ```text
//!   at the peak   │████████████████████████│▒▒▒▒▒        in use, cached
//!   after frees   │█████████████│▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!                 │          the most in use │ a third │
//! ```
//!
//! First nodes move small areas to the [stock](crate::wait) that they did not need lately. There
//! they may serve the new area, and then no memory is new. Last the stock evicts what has lain
//! longest.
//!
//! So a space becomes little larger than the most that was in use and a third of that, or the least
//! that may be cached, whatever a program does with its sizes; and one whose size stays keeps its
//! cache. A miss looks at two nodes and evicts 16 areas: what else is due is up to the next ones.
//! Only for a large step, more than a sixteenth of what is in use or cached, it goes on until as
//! many pages went as come, or it has looked 16 times. Addresses in pools count as in use. The new
//! pages of an area that grows are a miss as well.

use super::alloc::Allocation;
use super::held_node::HeldNode;
use crate::PageRange;
use crate::areas::Blocking;
use crate::platform::Platform;
use crate::wait::policy::LARGE_STEP;
use crate::wait::{Growth, HALF, TWICE, make_lazy_room};

impl<P: Platform> Allocation<'_, P> {
    /// Makes cached memory lazy because `come` pages come, where new memory is dear: for an area
    /// that is wanted, if there is a place for it, or for one that grows, for which `claimed` pages
    /// were claimed. Or claims some of the memory for the area that is wanted.
    #[cold]
    pub(super) fn grow(&self, come: u64, claimed: u64, most: Option<u64>) -> Option<PageRange> {
        let (space, cache) = (self.space, &self.space.cache);
        if self.checked.blocking == Blocking::Forbidden || !space.is_dear {
            return None;
        }
        let map = space.areas.map();
        most.is_none_or(|_| map.place_for(&self.checked.fit).is_ok()).then_some(())?;
        let used = space.geometry.span.len() + come - map.free_pages() - claimed;
        drop(map);
        let (kept, budget) = (used.saturating_sub(cache.lazy.level()), &cache.budget);
        let mut growth = budget.growth(&cache.lazy, kept);
        if growth.pages == 0 {
            return None;
        }
        let looks = if come > kept / LARGE_STEP { LARGE_STEP as usize } else { 1 };
        self.stock_idle(&growth, come, looks);
        let found = most.and_then(|most| self.take_stocked(most));
        growth.pages = growth.pages.saturating_sub(found.map_or(0, |area| area.len()));
        for _ in 0..looks {
            growth.pages = growth.pages.saturating_sub(self.evict_stock(growth.pages));
        }
        budget.note_growth(&growth);
        found
    }

    /// Moves areas that this CPU's node and another did not need lately to the stock, until as many
    /// pages went as come.
    fn stock_idle(&self, growth: &Growth, come: u64, looks: usize) {
        let (space, cache, own) = (self.space, &self.space.cache, self.space.own_node());
        let (id, other) = (own.id, cache.other_than(own.id, &own.node));
        drop(own);
        let (enough, sizes) = (growth.pages.min(come), if growth.excess == 0 { 1 } else { TWICE });
        let mut moved = 0;
        for id in (0..looks).flat_map(|_| [Some(id), other]).flatten() {
            // Under the lock of a node there is no call of the heap.
            drop(cache.lock_stock(HALF));
            // A node that is held, or has nothing, is passed by.
            let Some(mut node) = cache.nodes[id].try_lock().filter(|_| moved < enough) else { continue };
            if node.cached().pages() == 0 {
                continue;
            }
            let mut held = HeldNode { space, id, node };
            make_lazy_room(&mut held.node);
            let (more, lazy) = cache.stock_idle(&mut held.node, growth.pages - moved, sizes, &space.areas);
            moved += more;
            if lazy != 0 {
                held.publish();
            }
        }
    }

    /// Makes memory of the stock lazy that has lain longest, up to `due` pages. Returns how many.
    fn evict_stock(&self, due: u64) -> u64 {
        let (space, mut held) = (self.space, self.space.own_node());
        if due == 0 || !make_lazy_room(&mut held.node) {
            return 0;
        }
        let areas = &mut held.node.lazy.areas;
        let most = HALF.min(areas.capacity() - areas.len());
        let before = areas.len();
        let memory = space.cache.stock.lock().evict(due, most, areas, &space.areas);
        space.cache.budget.put(memory);
        let pages: u64 = areas[before..].iter().map(PageRange::len).sum();
        space.counts.held(areas.len() - before);
        if pages != 0 {
            held.make_lazy(pages, memory);
            // At once: what is lazy counts neither as in use nor as cached.
            held.publish();
        }
        pages
    }
}
