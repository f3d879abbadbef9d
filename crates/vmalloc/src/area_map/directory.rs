//! From a page to its leaf: a radix tree of three levels.
//!
//! ```text
//!   page  =  … │ root index │ 6 bits │ 6 bits │ 8 bits │
//!                 4 GiB an    64 MiB   1 MiB    page in the leaf
//!                 entry
//! ```
//!
//! In front of it stands a *window*: a flat array of the leaves at the start of the span. Placement is
//! lowest-first, so that is where most leaves are, and there a look-up is one load. The window grows with the number of
//! leaves ([`WINDOW_PER_LEAF`]), whatever the span.
//!
//! The root is one flat array, 4 bytes for each 4 GiB of the span; below it, nodes of 64 children exist only
//! where there are leaves. Absent children are 0, and node 0 and leaf 0 are zeroed records, so a look-up is
//! three loads without a branch. A bit for each child in use finds the nearest leaf before a page.

use super::leaf::LEAF_SHIFT;
use super::storage::{Items, Linked, OutOfMemory, Pool, Storage};
use crate::addr::PageRange;
use bytemuck::{Pod, Zeroable};

const FAN_SHIFT: u32 = 6;
const FAN: usize = 1 << FAN_SHIFT;
/// log2 of the pages below one root entry.
const ROOT_SHIFT: u32 = LEAF_SHIFT + 2 * FAN_SHIFT;

/// Window entries for each leaf, at most: 16 bytes a leaf where leaves are sparse, 4 where they are dense.
pub(super) const WINDOW_PER_LEAF: usize = 4;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Fan {
    present: u64,
    child: [u32; FAN],
}

impl Linked for Fan {
    fn link(&self) -> u32 {
        self.child[0]
    }
    fn set_link(&mut self, next: u32) {
        *self = Self { present: 0, child: [0; FAN] };
        self.child[0] = next;
    }
}

impl Fan {
    fn set(&mut self, slot: usize, child: u32) {
        self.child[slot] = child;
        self.present |= 1 << slot;
    }

    fn clear(&mut self, slot: usize) {
        self.child[slot] = 0;
        self.present &= !(1 << slot);
    }

    /// The child in the last slot in use below `slot` (which may be `FAN`).
    fn last_below(&self, slot: usize) -> Option<u32> {
        let below = if slot < FAN { self.present & !(u64::MAX << slot) } else { self.present };
        if below == 0 { None } else { Some(self.child[below.ilog2() as usize]) }
    }
}

pub(super) struct Directory<S: Storage> {
    root: S::Items<u32>,
    /// One bit for each root entry in use.
    root_present: S::Items<u64>,
    fans: Pool<Fan, S>,
    /// The first page below root entry 0.
    base: u64,
    /// The leaves of the groups from that of `window_base` on; 0 where there is none.
    window: S::Items<u32>,
    /// The first page of the leaf that the span starts in.
    window_base: u64,
    /// Leaves entered.
    leaves: usize,
}

/// The path of a page.
struct Path {
    root: usize,
    upper: usize,
    lower: usize,
}

impl<S: Storage> Directory<S> {
    /// Entries of the root over `span`.
    pub(super) fn root_len(span: PageRange) -> Option<usize> {
        let base = span.start() >> ROOT_SHIFT << ROOT_SHIFT;
        usize::try_from(((span.end() - 1 - base) >> ROOT_SHIFT) + 1).ok()
    }

    pub(super) fn new(
        span: PageRange,
        mut root: S::Items<u32>,
        mut root_present: S::Items<u64>,
        fans: S::Items<Fan>,
        window: S::Items<u32>,
    ) -> Result<Self, OutOfMemory> {
        let entries = Self::root_len(span).ok_or(OutOfMemory)?;
        root.extend_zeroed(entries)?;
        root_present.extend_zeroed(entries.div_ceil(64))?;
        let base = span.start() >> ROOT_SHIFT << ROOT_SHIFT;
        let window_base = span.start() >> LEAF_SHIFT << LEAF_SHIFT;
        Ok(Self { root, root_present, fans: Pool::new(fans)?, base, window, window_base, leaves: 0 })
    }

    #[inline]
    fn path(&self, page: u64) -> Path {
        Path {
            root: (page.wrapping_sub(self.base) >> ROOT_SHIFT) as usize,
            upper: (page >> (LEAF_SHIFT + FAN_SHIFT)) as usize & (FAN - 1),
            lower: (page >> LEAF_SHIFT) as usize & (FAN - 1),
        }
    }

    /// The leaf that holds `page`, or 0, if the page lies in the window.
    #[inline]
    pub(super) fn leaf_near(&self, page: u64) -> Option<u32> {
        self.window.get((page.wrapping_sub(self.window_base) >> LEAF_SHIFT) as usize).copied()
    }

    /// The leaf that holds `page`, or 0. Any page may be asked for.
    #[inline]
    pub(super) fn leaf_of(&self, page: u64) -> u32 {
        match self.leaf_near(page) {
            Some(leaf) => leaf,
            None => self.leaf_beyond(page),
        }
    }

    /// The leaf of a page beyond the window.
    #[inline(never)]
    fn leaf_beyond(&self, page: u64) -> u32 {
        let path = self.path(page);
        let upper = self.root.get(path.root).copied().unwrap_or(0);
        let lower = self.fans[upper].child[path.upper];
        self.fans[lower].child[path.lower]
    }

    /// The last leaf that lies wholly before the leaf of `page`.
    pub(super) fn leaf_before(&self, page: u64) -> Option<u32> {
        let path = self.path(page);
        let root = path.root.min(self.root.len());
        if let Some(&upper) = self.root.get(root) {
            let lower = self.fans[upper].child[path.upper];
            if let Some(leaf) = self.fans[lower].last_below(path.lower) {
                return Some(leaf);
            }
            if let Some(lower) = self.fans[upper].last_below(path.upper) {
                return self.fans[lower].last_below(FAN);
            }
        }
        let upper = self.root[self.last_root_below(root)?];
        let lower = self.fans[upper].last_below(FAN)?;
        self.fans[lower].last_below(FAN)
    }

    fn last_root_below(&self, entry: usize) -> Option<usize> {
        let (mut word, bit) = (entry / 64, entry % 64);
        let mut bits = self.root_present.get(word).map_or(0, |bits| bits & !(u64::MAX << bit));
        while bits == 0 {
            word = word.checked_sub(1)?;
            bits = self.root_present[word];
        }
        Some(word * 64 + bits.ilog2() as usize)
    }

    /// Makes sure that the next `leaves` calls of [`insert`](Self::insert) find the nodes they need.
    pub(super) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.fans.ensure(2 * leaves)
    }

    /// Enters a leaf. [`ensure`](Self::ensure) has been called for it.
    pub(super) fn insert(&mut self, page: u64, leaf: u32) {
        let path = self.path(page);
        if self.root[path.root] == 0 {
            self.root[path.root] = self.fans.take();
            self.root_present[path.root / 64] |= 1 << (path.root % 64);
        }
        let upper = self.root[path.root];
        if self.fans[upper].child[path.upper] == 0 {
            let lower = self.fans.take();
            self.fans[upper].set(path.upper, lower);
        }
        let lower = self.fans[upper].child[path.upper];
        self.fans[lower].set(path.lower, leaf);
        self.leaves += 1;
        self.widen();
        self.enter_in_window(page, leaf);
    }

    /// Lets the window grow to its share, and enters the leaves that it now covers.
    fn widen(&mut self) {
        let have = self.window.len();
        let wanted = (self.leaves * WINDOW_PER_LEAF).min(self.window_max());
        // By a quarter at a time, so that the leaves are walked rarely. Without memory it stays as it is.
        if wanted < have + have / 4 + 64 || self.window.extend_zeroed(wanted - have).is_err() {
            return;
        }
        for index in have..wanted {
            self.window[index] = self.leaf_beyond(self.window_base + ((index as u64) << LEAF_SHIFT));
        }
    }

    fn enter_in_window(&mut self, page: u64, leaf: u32) {
        let index = ((page - self.window_base) >> LEAF_SHIFT) as usize;
        if let Some(entry) = self.window.get_mut(index) {
            *entry = leaf;
        }
    }

    /// Entries that cover everything below the root.
    fn window_max(&self) -> usize {
        self.root.len() << (2 * FAN_SHIFT)
    }

    /// Takes the leaf of `page` out, and with it the nodes that held nothing else.
    pub(super) fn remove(&mut self, page: u64) {
        let path = self.path(page);
        self.enter_in_window(page, 0);
        self.leaves -= 1;
        let upper = self.root[path.root];
        let lower = self.fans[upper].child[path.upper];
        self.fans[lower].clear(path.lower);
        if self.fans[lower].present == 0 {
            self.fans.put(lower);
            self.fans[upper].clear(path.upper);
        }
        if self.fans[upper].present == 0 {
            self.fans.put(upper);
            self.root[path.root] = 0;
            self.root_present[path.root / 64] &= !(1 << (path.root % 64));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.root.bytes() + self.root_present.bytes() + self.fans.bytes() + self.window.bytes()
    }
}
