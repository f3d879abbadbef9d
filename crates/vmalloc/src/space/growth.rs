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
//! So a space becomes little larger than the most that was in use and a third of that, or the least
//! that may be cached, whatever a program does with its sizes; and one whose size stays keeps its
//! cache. A miss looks at two nodes and at 32 areas of each: what is cached elsewhere is up to the
//! next ones. Addresses in pools count as in use.

use super::Space;
use super::free::HeldNode;
use crate::cache::Growth;
use crate::fit::Fit;
use crate::platform::Platform;

impl<P: Platform> Space<P> {
    /// Makes cached areas of this CPU's node and of another lazy because of a new area, if there is
    /// a place for it.
    #[cold]
    pub(super) fn grow(&self, fit: &Fit) {
        let map = self.areas.map();
        let Ok(_) = map.place_for(fit) else { return };
        let used = self.geometry.span.len() - map.free_pages() + fit.pages();
        drop(map);
        let (kept, budget) = (used.saturating_sub(self.cache.lazy.level()), &self.cache.budget);
        let mut growth = budget.growth(kept, self.cache.large.lock().memory());
        if growth.pages == 0 {
            return;
        }
        let (largest, (id, node)) = (fit.pages() / 4, self.cache.lock(self.platform.cpu()));
        let other = self.cache.other_than(id, &node);
        self.shrink_node(node, &mut growth, largest);
        // A node that is held is passed by.
        let other = other.filter(|_| growth.pages != 0).and_then(|id| self.cache.nodes[id].try_lock());
        if let Some(node) = other {
            self.shrink_node(node, &mut growth, largest);
        }
        budget.note_growth(&growth);
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
