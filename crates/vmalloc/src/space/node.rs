//! A node: what one CPU, or a few, free and take without meeting the others.
//!
//! ```text
//!            alloc                              free, here                 purge
//!              │ 1                                  │                        │
//!   cached ◄─┤      freed, memory kept            ├─► cached ─(decay)─┐  │
//!      pools ◄─┤ 2    addresses, flushed            │                     ▼  ▼
//!        map ◄─┘ 3    shared by all nodes           └──────────────────► lazy ──► pools of the node that asked
//! ```
//!
//! A CPU works on its own node, whoever's area it frees. An area that another node asked for goes among the *remote*, and
//! the purge takes it home. (Linux sorts busy and lazy areas to nodes by address, 16 pages in turn; here the state
//! of an area is a bit beside its address, which needs no list, and a free needs no lock but the freeing CPU's own.)

use super::pools::Pools;
use crate::addr::PageRange;
use alloc::vec::Vec;

/// What a node's lock protects.
#[derive(Default)]
pub(super) struct Node {
    /// Freed areas that kept their memory.
    pub(super) cached: Pools,
    /// Addresses without memory that no CPU translates any more.
    pub(super) pools: Pools,
    /// Freed here, to be unmapped.
    pub(super) lazy: Lazy,
    /// Pages of these that the space's count does not know of yet.
    pub(super) unpublished: u64,
    /// Unpublished pages at which they are told; 0 while the platform does not know that something waits here.
    pub(super) alarm: u64,
    /// Pages that may be cached here, of what all nodes share; 0 while the platform does not know.
    pub(super) grant: u64,
    /// The leaf that this node was given when it would have had to share another's.
    pub(super) spot: Option<PageRange>,
    /// The node that was looked at last for memory of a size that this one has none of.
    pub(super) looked_at: usize,
    /// How often nothing was granted.
    refusals: u32,
}

/// Areas freed on one node and not unmapped yet.
#[derive(Default)]
pub(super) struct Lazy {
    /// The node's own.
    pub(super) own: Vec<PageRange>,
    /// Those that other nodes asked for, or too large for any pool.
    pub(super) remote: Vec<PageRange>,
}

impl Node {
    /// An empty one; `None` when memory is short.
    pub(super) fn new() -> Option<Self> {
        Some(Self { lazy: Lazy::new()?, ..Self::default() })
    }

    /// Whether it is time to look at other nodes for what they do not use: not for every area that is refused.
    pub(super) fn may_search(&mut self) -> bool {
        self.refusals = self.refusals.wrapping_add(1);
        self.refusals % 32 == 1
    }

    /// Returns how many areas are in its lists.
    pub(super) fn areas(&self) -> u64 {
        self.cached.areas() + self.pools.areas() + self.lazy.areas()
    }

    pub(super) fn bytes(&self) -> usize {
        self.cached.bytes() + self.pools.bytes() + self.lazy.bytes()
    }
}

/// Strays that a node can take without memory: what can be freed where there may be none.
const REMOTE: usize = 32;

impl Lazy {
    /// An empty one; `None` when memory is short.
    pub(super) fn new() -> Option<Self> {
        let mut remote = Vec::new();
        remote.try_reserve_exact(REMOTE).ok()?;
        Some(Self { own: Vec::new(), remote })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.remote.is_empty()
    }

    pub(super) fn areas(&self) -> u64 {
        (self.own.len() + self.remote.len()) as u64
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PageRange> {
        self.own.iter().chain(&self.remote)
    }

    /// Empties it, and keeps memory for as many the next time.
    pub(super) fn clear(&mut self) {
        clear(&mut self.own);
        let small = if is_too_large(&self.remote) { Self::new() } else { None };
        self.remote.clear();
        // Without memory for less it keeps what it has.
        if let Some(small) = small {
            self.remote = small.remote;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        (self.own.capacity() + self.remote.capacity()) * size_of::<PageRange>()
    }
}

/// Empties a list. What it held once, and long since does not, is no reason to keep that memory: it is let go whole, since
/// a smaller piece would have to be asked for, and may be refused.
pub(super) fn clear<T>(list: &mut Vec<T>) {
    if is_too_large(list) {
        *list = Vec::new();
    }
    list.clear();
}

fn is_too_large<T>(list: &Vec<T>) -> bool {
    list.capacity() > 4 * list.len().max(LIST)
}

/// The room that lists keep in any case: a page or two.
const LIST: usize = 256;

/// Makes sure that the next push succeeds; whether it does.
#[inline(always)]
#[must_use]
pub(super) fn has_room(list: &mut Vec<PageRange>) -> bool {
    list.len() < list.capacity() || list.try_reserve(1).is_ok()
}

/// On cache lines of its own, two at a time as the prefetcher takes them.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
