//! Growth: a space that becomes larger than it has to be gives cached memory back.
//!
//! Where memory is dear, a free caches it whenever the budget allows that, for the space is no
//! larger then. After a miss it is, and so the miss makes cached areas lazy for the pages by which
//!
//! - what is in use exceeds the most that there ever was: large areas of up to a quarter of the new
//!   one, and small ones that were not needed lately, for these are sizes that were left behind;
//!   while more than a third of what is in use is cached, any others, the longest unused first;
//! - the space exceeds the most that was in use and a third of it.
//!
//! ```text
//!   at the peak   │████████████████████████│▒▒▒▒▒        in use, cached
//!   after frees   │█████████████│▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!                 │          the most in use │ a third │
//! ```
//!
//! Before that, the miss looks for small areas that were not needed lately and lie side by side, as
//! they do when they were freed in the order of their addresses. Joined they are the new area, and
//! no memory is new:
//!
//! ```text
//!   cached   │▒▒▒▒ 10 ▒▒▒▒│▒▒▒▒ 10 ▒▒▒▒│▒▒▒▒ 10 ▒▒▒▒│   a request of 25 pages
//!   joined   │█████████████ 25 █████████████│▒▒ 5 ▒▒│   the rest is lazy
//! ```
//!
//! So a space becomes little larger than the most that was in use and a third of that, or the least
//! that may be cached, whatever a program does with its sizes; and one whose size stays keeps its
//! cache. A miss looks at two nodes and at 32 areas of each: what is cached elsewhere is up to the
//! next ones. Only for a large step, more than a sixteenth of what is in use or cached, it goes on
//! until as many pages went as come, or it has looked 16 times. Addresses in pools count as in use.

use super::Space;
use super::free::HeldNode;
use crate::Fit;
use crate::PageRange;
use crate::cache::{Growth, Node, has_room};
use crate::platform::Platform;

/// An area that is more than this part of what is in use or cached is a large step: what waits for
/// later misses may be more than there will be. PostgreSQL's large sorts are such.
const LARGE_STEP: u64 = 16;
/// How often a large step looks for areas that can go.
const LOOKS: usize = 16;

impl<P: Platform> Space<P> {
    /// Makes cached areas of this CPU's node and of another lazy because of a new area, if there is
    /// a place for it; or joins some of them, and claims them for it.
    #[cold]
    pub(super) fn grow(&self, fit: &Fit) -> Option<PageRange> {
        let map = self.areas.map();
        map.place_for(fit).ok()?;
        let used = self.geometry.span.len() - map.free_pages() + fit.pages();
        drop(map);
        let (kept, budget) = (used.saturating_sub(self.cache.lazy.level()), &self.cache.budget);
        let mut growth = budget.growth(&self.cache.lazy, kept);
        if growth.pages == 0 {
            return None;
        }
        // As many pages go as come; what else is due is up to the next misses.
        let enough = growth.pages.saturating_sub(fit.pages());
        let joined = self.join(fit);
        growth.take(joined.map_or(0, |area| area.len()));
        let looks = if fit.pages() > kept / LARGE_STEP { LOOKS } else { 1 };
        for _ in 0..looks {
            if growth.pages <= enough || !self.shrink_nodes(&mut growth, fit.pages() / 4) {
                break;
            }
        }
        budget.note_growth(&growth);
        joined
    }

    /// Claims cached areas of this CPU's node that lie side by side as one. What it does not need
    /// of the last of them is lazy then.
    fn join(&self, fit: &Fit) -> Option<PageRange> {
        let (_, mut node) = self.cache.lock(self.platform.cpu());
        let Node { cached, lazy, .. } = &mut *node;
        // A guard page has no memory.
        if self.guard_pages != 0 || !has_room(&mut lazy.remote) {
            return None;
        }
        let (areas, each) = cached.take_adjacent(fit.pages(), fit.alignment())?;
        self.cache.budget.put(areas.len());
        let area = self.areas.map().join_retired(areas, each, fit.pages());
        if let Some(rest) = PageRange::new(area.end(), areas.end()) {
            lazy.remote.push(rest);
            self.count_lazy(node, rest.len(), rest.len());
        }
        Some(area)
    }

    /// Makes cached areas of this CPU's node and of another lazy, and large ones of up to `largest`
    /// pages. Returns whether another look may find more.
    fn shrink_nodes(&self, growth: &mut Growth, largest: u64) -> bool {
        let due = growth.pages;
        let (id, node) = self.cache.lock(self.platform.cpu());
        let other = self.cache.other_than(id, &node);
        let mut is_any = node.cached.has_sizes();
        self.shrink_node(node, growth, largest);
        // A node that is held is passed by.
        let other = other.filter(|_| growth.pages != 0).and_then(|id| self.cache.nodes[id].try_lock());
        if let Some(node) = other {
            is_any |= node.cached.has_sizes();
            self.shrink_node(node, growth, largest);
        }
        is_any || growth.pages != due
    }

    /// Makes cached areas of a node lazy, and large ones of up to `largest` pages.
    fn shrink_node(&self, mut node: HeldNode<'_, P>, growth: &mut Growth, largest: u64) {
        let lazy = node.lazy.remote.len();
        let (pages, memory) = self.cache.shrink(&mut node, growth, largest);
        self.counts.held(node.lazy.remote.len() - lazy);
        if pages != 0 {
            // At once: what is lazy counts neither as in use nor as cached.
            node.publish_at = node.publish_at.min(1);
            self.count_lazy(node, pages, memory);
        }
    }
}
