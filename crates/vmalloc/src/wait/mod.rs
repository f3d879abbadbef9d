//! What waits after a free, and for how long: the one place that decides it.
//!
//! ```text
//!            alloc                              free, here                 purge
//!              │ 1                                  │                        │
//!     cached ◄─┤      freed, memory kept            ├─► cached ──(age)───┐   │
//!     pooled ◄─┤ 2    addresses, flushed            │                    ▼   ▼
//!        map ◄─┘ 3    in runs                       └────────────────► lazy ──► pool of the node that freed it
//! ```
//!
//! 1. A CPU works on its own node. Each node has one lock, and a CPU that holds one waits for no
//!    other.
//! 2. A free caches the area if the budget has room for its memory. Else the area is lazy: its
//!    memory is unmapped in bulk.
//! 3. When the lazy pages of a group of nodes pass their part of the threshold, one purge unmaps
//!    and flushes them all. What it took goes back to the pools of the nodes that freed it: what a
//!    node frees it will allocate again.
//! 4. An allocation takes what waits in its node, then in another, then a run of new addresses: a
//!    long one if it had to wait for the map, and if those of the last run were needed.
//! 5. Whatever was not needed since the last decay goes by age, a quarter at a time. Nothing else
//!    goes by age: beyond a bound, new areas make old ones of the same place go.
//!
//! - [`policy`]: the numbers, each with what it was measured by. [`budget`]: two numbers that nodes
//!   share in batches: pages that may be cached, and pages that are lazy.
//! - [`node`], [`stacks`]: what one CPU, or a few, have, by size, as Linux's nodes have it since
//!   2024. [`stock`]: areas without a place in a node that kept their memory, one list for all
//!   CPUs.
//!
//! The space puts that in order, and has no number of its own: `space/held_node.rs` is what an
//! allocation takes of a node, and of the map for it; `space/growth.rs` a space that becomes larger
//! than it has to be; `space/told.rs` what the platform knows of all that.
//!
//! (Linux sorts busy and lazy areas to nodes by address, 16 pages in turn. Here the state of an
//! area is a bit beside its address, which needs no list, and a free needs no lock but the freeing
//! CPU's own.)

mod budget;
mod node;
pub(crate) mod policy;
mod stacks;
mod stock;

pub(crate) use budget::{Budget, Growth, LazyPages};
pub(crate) use node::{Lazy, Node, PIECE_BYTES, clear, has_piece, make_lazy_room};
pub use node::{lacks_one, lengthen};
pub(crate) use policy::{Allowance, BATCH, GROUP, HALF, MAX_PAGES, third, twelfth};
pub(crate) use stacks::{Cursor, Fraction, SizeStacks, TWICE, make_room};
pub(crate) use stock::{Borders, Stock};

use crate::{PageRange, SpaceError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::parts::try_box;

/// A value on cache lines of its own, two at a time as the prefetcher takes them.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> core::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value with cache lines of its own on the heap, so that a space is small enough for any stack.
pub(crate) struct Apart<T>(Box<Padded<T>>);

impl<T> Apart<T> {
    /// Makes the value in a frame of its own: that of the caller, which has many such, stays small.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    #[inline(never)]
    pub(crate) fn new(make: impl FnOnce() -> T) -> Result<Self, SpaceError> {
        try_box(|| Padded(make())).map(Self).map_err(|_| SpaceError::Metadata)
    }
}

impl<T> core::ops::Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.0
    }
}

impl<T> core::ops::DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.0
    }
}

/// Makes a list in place.
///
/// # Errors
/// [`SpaceError::Metadata`] when memory is short.
pub(crate) fn list<T>(len: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, SpaceError> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).map_err(|_| SpaceError::Metadata)?;
    list.resize_with(len, make);
    Ok(list.into_boxed_slice())
}

/// Returns the address of the first value, how many there are, the bytes from each to the next, and
/// the place of the value itself in that, behind its lock: for an outline.
pub(crate) fn places<L: RawMutex, T>(all: &[Padded<Mutex<L, T>>]) -> [usize; 4] {
    let first = all.as_ptr().addr();
    let within = all.first().map_or(0, |one| one.0.data_ptr().addr() - first);
    [first, all.len(), size_of::<Padded<Mutex<L, T>>>(), within]
}

/// The nodes of a space, and the numbers that they share.
pub(crate) struct Cache<L> {
    pub(crate) nodes: Box<[Padded<Mutex<L, Node>>]>,
    pub(crate) budget: Apart<Budget>,
    pub(crate) lazy: Apart<LazyPages>,
    /// Areas that kept their memory and have no place in a node. Locked after a node.
    pub(crate) stock: Apart<Mutex<L, Stock>>,
}

impl<L: RawMutex> Cache<L> {
    /// Returns `count` empty nodes for areas with so many guard pages.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    #[inline(never)]
    pub(crate) fn new(count: usize, allowance: Allowance, guard_pages: u64) -> Result<Self, SpaceError> {
        let mut nodes = list(count, || Padded(Mutex::new(Node::default())))?;
        for node in &mut nodes {
            node.0.get_mut().lazy = Lazy::new()?;
        }
        Ok(Self {
            nodes,
            budget: Budget::new(allowance, count)?,
            lazy: LazyPages::new(allowance.lazy(0), allowance.absent, count)?,
            stock: Apart::new(|| Mutex::new(Stock::new(guard_pages)))?,
        })
    }

    /// Locks the node of `cpu`. The CPU is a hint: any node would do.
    #[inline(always)]
    pub(crate) fn lock(&self, cpu: usize) -> (usize, MutexGuard<'_, L, Node>) {
        match self.nodes.get(cpu) {
            Some(node) => (cpu, node.lock()),
            None => self.lock_shared(cpu),
        }
    }

    /// Locks the node that `cpu` shares with others.
    #[inline(never)]
    fn lock_shared(&self, cpu: usize) -> (usize, MutexGuard<'_, L, Node>) {
        let id = cpu % self.nodes.len();
        (id, self.nodes[id].lock())
    }

    /// Locks the node of `cpu`, unless it is held or shared.
    #[inline(always)]
    pub(crate) fn try_lock(&self, cpu: usize) -> Option<MutexGuard<'_, L, Node>> {
        self.nodes.get(cpu).and_then(|node| node.try_lock())
    }

    /// Locks one node after the other.
    pub(crate) fn each(&self) -> impl ExactSizeIterator<Item = MutexGuard<'_, L, Node>> {
        self.nodes.iter().map(|node| node.lock())
    }

    /// Keeps the memory of `area` in `node`, if that is within the budget.
    #[inline(always)]
    pub(crate) fn keep(&self, node: &mut Node, area: PageRange) -> bool {
        if node.credit < area.len() && !self.extend_credit(node, area.len()) {
            return false;
        }
        let kept = node.cached.put(area);
        if kept {
            node.credit -= area.len();
        }
        kept
    }

    /// Moves cached areas of `node` that it did not need lately to the stock, until they have
    /// `pages` pages; it looks at `sizes` sizes. What the stock has no place for is lazy
    /// then. Returns how many pages were moved, and how many of them are lazy.
    #[cold]
    pub(crate) fn stock_idle(
        &self,
        node: &mut Node,
        pages: u64,
        sizes: u64,
        borders: &impl Borders,
    ) -> (u64, u64) {
        let Node { cached, lazy: Lazy { areas, .. }, .. } = node;
        let before = areas.len();
        let most = HALF.min(areas.capacity() - areas.len());
        let moved = cached.make_way(pages, most, sizes, areas);
        let mut stock = self.stock.lock();
        while areas.len() > before && stock.has_room() {
            areas.pop().into_iter().for_each(|area| stock.enter(area, area.len(), borders));
        }
        drop(stock);
        let lazy = areas[before..].iter().map(PageRange::len).sum();
        node.count_lazy(lazy, lazy);
        self.budget.put(lazy);
        (moved, lazy)
    }

    /// Returns the node other than `own`, which is node `id`, that had something the last time, or
    /// the next in turn; `None` where there is one alone.
    pub(crate) fn other_than(&self, id: usize, own: &Node) -> Option<usize> {
        // Among two others a look would find more, and take as many more cache lines of other CPUs.
        let next = |turn: usize| if turn < self.nodes.len() { turn } else { 0 };
        let turn = next(own.looked_at.into());
        Some(if turn == id { next(turn + 1) } else { turn }).filter(|&other| other != id)
    }

    /// Gives up the credit of `node` beyond a batch, so that it is not taken for cached memory.
    pub(crate) fn trim_credit(&self, node: &mut Node) {
        let more = node.credit.saturating_sub(self.budget.batch);
        if more != 0 {
            node.credit -= more;
            self.budget.put(more);
        }
    }

    /// Extends the credit of `node` to `pages` pages, if the budget allows it. Where it does not,
    /// the next node in turn gives up what it does not use.
    #[inline(never)]
    fn extend_credit(&self, node: &mut Node, pages: u64) -> bool {
        let missing = pages - node.credit;
        let take = || self.budget.take(missing, missing.max(self.budget.batch));
        let mut more = take();
        if more.is_none() && node.may_search() {
            let next = usize::from(node.looked_at) % self.nodes.len();
            node.looked_at = next as u16 + 1;
            // Nothing is waited for: our own node is among those that are held.
            if let Some(mut other) = self.nodes[next].try_lock() {
                self.trim_credit(&mut other);
                more = take();
            }
        }
        node.credit += more.unwrap_or(0);
        more.is_some()
    }

    /// Adds the lazy pages of node `id` to the number that its group shares. Returns how many.
    #[inline(never)]
    pub(crate) fn publish(&self, id: usize, mut node: MutexGuard<'_, L, Node>) -> u64 {
        let added = node.take_unpublished(self.lazy.batch());
        // Before the node is free: a purge can not take what is not counted.
        self.lazy.of(id).add(added);
        added
    }

    /// Returns whether nothing waits in the nodes and the stock. The next free in an empty node
    /// takes the slow way then, where the platform is told.
    pub(crate) fn rest(&self) -> bool {
        let mut is_idle = true;
        for mut node in self.each() {
            if node.is_empty() {
                self.budget.put(node.rest());
            } else {
                is_idle = false;
            }
        }
        is_idle && self.stock.lock().iter().len() == 0
    }

    /// Has the next free in each node take the slow way: in the child of a fork, where no drain
    /// knows of what waits there.
    pub(crate) fn rest_all(&self) {
        self.each().for_each(|mut node| self.budget.put(node.rest()));
    }

    /// Puts areas into the pool of node `id`, at most [`BATCH`], up to `most` pages in all or four
    /// runs. Where they are more, areas make way that the node did not need since the last time:
    /// `evicted` has them then, and `cursor` says where to go on. Returns how many went in.
    pub(crate) fn pool(
        &self,
        id: usize,
        areas: &[PageRange],
        most: u64,
        cursor: &mut Cursor,
        evicted: &mut Vec<PageRange>,
    ) -> usize {
        evicted.clear();
        let mut node = self.nodes[id].lock();
        let most = most.max(policy::RUNS * policy::MOST_RUN);
        let goes_in = |area: &&PageRange| {
            let fits = node.pooled_pages + area.len() <= most;
            fits && (node.pool(**area)
                || make_room(&mut node, Node::pooled, area.len(), 1) && node.pool(**area))
        };
        let count = areas.iter().take_while(goes_in).count();
        if count < areas.len() {
            node.evict_pooled(Fraction::Idle, cursor, BATCH - count, evicted);
        }
        count
    }

    /// Locks the stock, with room for `more` areas if the heap has memory. The caller holds no
    /// lock.
    pub(crate) fn lock_stock(&self, more: usize) -> MutexGuard<'_, L, Stock> {
        let mut stock = self.stock.lock();
        if stock.lacks(more).is_some() {
            lengthen(&mut stock, Stock::list, |stock| stock.lacks(more));
        }
        stock
    }

    /// Locks all nodes, for a fork.
    pub(crate) fn lock_all(&self) {
        self.nodes.iter().for_each(|node| core::mem::forget(node.lock()));
        core::mem::forget(self.stock.lock());
    }

    /// Releases all nodes.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has called `lock_all`.
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise it is held.
        unsafe { self.stock.force_unlock() };
        // SAFETY: by the caller's promise they are held.
        self.nodes.iter().for_each(|node| unsafe { node.force_unlock() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Flag;

    /// A node that has some credit of its own looks at the next one all the same.
    #[test]
    fn credit_that_another_node_does_not_use_is_taken() {
        let allowance =
            Allowance { lazy: 8, absent: 8, least: 64, most: 64, is_dear: false, beside: twelfth };
        let cache = Cache::<Flag>::new(4, allowance, 0).unwrap();
        assert!(cache.budget.batch <= 4, "the credit of node 3 is much");
        // All of the budget is credit: most of it that of node 3.
        while cache.budget.take(1, 64).is_some() {}
        cache.nodes[3].lock().credit = 58;
        let mut own = cache.nodes[0].lock();
        (own.credit, own.looked_at) = (6, 3);
        own.cached.with_room(10, 1);
        assert!(cache.keep(&mut own, PageRange::of(100, 110)), "10 pages: {}", own.credit);
    }
}
