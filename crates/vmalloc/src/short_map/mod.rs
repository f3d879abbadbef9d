//! Short mappings: addresses for mappings that live shortly, at the price of a few stores.
//!
//! A **block** is an area of up to 1024 pages, its **slots**, cut from the space once and handed
//! out piece by piece: a request of up to 64 pages takes 2^order slots. The CPU that maps asks its
//! own queue; the CPU that unmaps touches only the block. (The idea is Linux's `vm_map_ram`, 2008;
//! blocks at the tail of their queue, 2015.)
//!
//! ```text
//!    map on CPU 0           queue 0          block                                      unmap, on any CPU
//!       │                 ┌──────────┐      ┌───────────────┬──────┬───────┬───────────┐      │
//!       └── exchange ───► │ window ──┼────► │ 4 · · · D ·  …│ live │ dirty │ window    │ ◄────┘
//!                         └──────────┘      └───────────────┴──────┴───────┴───────────┘   byte: 4 → 4|DIRTY
//!                                             a byte a slot           held = live + window   held -= 4
//! ```
//! Neither takes a lock as a rule.
//!
//! - `slots`: a block's record, a byte for each slot.
//! - `windows`: a CPU's queue, from which it takes slots. `kept`: runs that it keeps mapped.
//! - `lists`: blocks that can be opened, for all CPUs.
//! - `handout`: what every mapping does. `lifecycle`: from one window to the next.
//!   `collect`: blocks in a purge. `repair`: blocks after a fork. `block_check`: the
//!   invariants.
//! - `linear`: frames that are mapped already.
//!
//! # Terms
//! - A **window** is a range of slots that one queue may hand out, from its start. A queue has one
//!   for each order.
//! - A slot is **live** (mapped), **dirty** (returned, and perhaps still translated somewhere),
//!   **clean**, or in a window.
//!
//! # Invariants
//! - **BLOCK-1** The bytes of a block, from the first, are a sequence of runs. The other bytes of a
//!   run mean nothing. In a block that is all clean no byte means anything.
//!
//!   | first byte | run |
//!   |---|---|
//!   | 0 | one clean slot |
//!   | `RESERVED + k` | 2^k slots of a window, or just taken out of it by a thread that is about to write a live run |
//!   | `n` ≤ 64 | a live run of n pages, in 2^⌈log n⌉ slots |
//!   | `n + KEPT` | such a run, returned and kept mapped for the next caller that maps the same frames |
//!   | `n \| DIRTY` | such a run, returned for good |
//!
//! - **BLOCK-2** `held` = slots that are live or in a window. The thread that brings it to 0 moves
//!   the block to the lists.
//! - **BLOCK-3** `clean` = clean slots. A slot that is neither held nor clean is dirty.
//! - **BLOCK-4** The state of a block changes only with the lists locked.
//!
//! ```text
//!             all slots a window                    window used up                held = 0
//!    Unused ────────────────────► Open (in a queue) ───────────────► Closed ─────────────────► Spent
//!       ▲                          ▲        ▲                          │                         │
//!       │ pressure                 │        │ some slots    flushed    ▼        flushed          │
//!       └───────────── Ready ──────┘        └────────────── Part ◄── Purging ◄───────────────────┘
//!                        ▲                                             │
//!                        └─────────────────────────────────────────────┘ all slots
//! ```
//!
//! Beyond the original: a flush makes dirty slots clean while others live on, and a block with
//! clean slots is opened again. So one long-lived mapping pins itself and not a block. On a machine
//! whose mappings [replace](crate::Geometry::remaps_atomically) what was there, dirty slots are as
//! good as clean ones.
//!
//! Nothing here knows the area map: the space claims and releases the areas of blocks.

mod block_check;
mod collect;
mod handout;
mod kept;
mod lifecycle;
pub(crate) mod linear;
mod lists;
mod repair;
mod slots;
mod windows;

pub(crate) use collect::{Parted, Taken};
pub(crate) use handout::{Given, Opened};
pub(crate) use lifecycle::Recycling;
pub(crate) use slots::{Block, MAX_SLOTS, SlotState};

use crate::PageRange;
use crate::areas::{Annotation, Kind};
use crate::cache::Padded;
use crate::sync::size;
use alloc::boxed::Box;
use alloc::vec::Vec;
use kept::{Kept, Key, MOST_KEPT};
use linear::Linear;
use lists::{List, Lists};
use lock_api::{Mutex, RawMutex};
use slots::{BlockState, Run};
use vmalloc_map::parts::{Chunks, OutOfMemory};
use windows::{AtomicWindow, ORDERS, Queue, QueueState, Window};

/// The most pages of a request that blocks serve: one word of bits in the original.
pub const MOST_PAGES: u64 = size(64, 4);

const _: () =
    assert!(MOST_PAGES <= 64, "one byte says how many pages are mapped, and whether they were returned");

/// The annotation of a block's area.
pub(crate) const BLOCK: Annotation = Annotation { kind: Kind::Block, guard_pages: 0, tag: None };

/// The fewest slots of a block, where the span is small.
const LEAST_SLOTS: u64 = size(128, 8);

/// The slots for each number of pages, less one: no entry is of pages that are not served.
const SLOTS: [u8; MOST_PAGES as usize] = {
    let mut slots = [0; MOST_PAGES as usize];
    let mut pages = 1;
    while pages <= MOST_PAGES as usize {
        slots[pages - 1] = pages.next_power_of_two() as u8;
        pages += 1;
    }
    slots
};

/// Their orders.
const ORDER: [u8; MOST_PAGES as usize] = {
    let mut order = [0; MOST_PAGES as usize];
    let mut nth = 0;
    while nth < order.len() {
        order[nth] = SLOTS[nth].trailing_zeros() as u8;
        nth += 1;
    }
    order
};

/// Returns the order of a request of `pages` pages, which takes 2^order slots. It is that of no
/// window if blocks do not serve the request.
#[inline(always)]
pub(crate) fn order_of(pages: u64) -> usize {
    ORDER.get(pages.wrapping_sub(1) as usize).map_or(usize::MAX, |&order| usize::from(order))
}

/// Returns whether blocks serve requests of `pages` pages.
pub(crate) fn is_served(pages: u64) -> bool {
    order_of(pages) < ORDERS
}

/// Returns the slots for `pages` pages; `None` if blocks do not serve that.
#[inline(always)]
pub(crate) fn slots_for(pages: u64) -> Option<u64> {
    SLOTS.get(pages.wrapping_sub(1) as usize).map(|&slots| u64::from(slots))
}

/// The short mappings of a space.
pub(crate) struct ShortMaps<L> {
    // Constant.
    /// True if dirty slots may be handed out at once.
    pub(crate) remaps_atomically: bool,
    /// log2 of the slots of a block.
    shift: u32,
    /// The block that is number 0, and how many a whole span has: numbers go round.
    origin: u64,
    total: u64,
    records: Chunks<Block, 1>,

    pub(crate) queues: Box<[Padded<Queue<L>>]>,
    lists: Padded<Mutex<L, Lists>>,
    pub(crate) linear: Linear,
}

/// The counts of the blocks of a space.
pub(crate) struct BlockCounts {
    /// Blocks that there are.
    pub(crate) blocks: u64,
    /// Blocks made so far.
    pub(crate) made: u64,
    /// Blocks released so far.
    pub(crate) freed: u64,
    /// Blocks that wait for a flush.
    pub(crate) spent: u64,
    /// Blocks that are all clean.
    pub(crate) ready: u64,
}

impl<L: RawMutex> ShortMaps<L> {
    /// Returns no blocks yet, in `span`; `None` when memory is short.
    pub(crate) fn new(span: PageRange, queues: usize, slots: u64, remaps_atomically: bool) -> Option<Self> {
        let slots = if slots == 0 { usual_slots(span, queues) } else { slots };
        let shift = slots.trailing_zeros();
        let middle = span.start() + span.len() / 2;
        let mut list = Vec::new();
        list.try_reserve_exact(queues).ok()?;
        list.resize_with(queues, || Padded(Queue::default()));
        Some(Self {
            remaps_atomically,
            shift,
            origin: middle.div_ceil(slots),
            total: span.end().div_ceil(slots) - span.start() / slots,
            records: Chunks::default(),
            queues: list.into_boxed_slice(),
            lists: Padded(Mutex::new(Lists::default())),
            linear: Linear::default(),
        })
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> BlockCounts {
        let lists = self.lists.lock();
        BlockCounts {
            blocks: lists.all.len() as u64,
            made: lists.made,
            freed: lists.freed,
            spent: lists.spent,
            ready: lists.ready.len(),
        }
    }

    /// Locks all queues, and then the lists, for a fork.
    pub(crate) fn lock_all(&self) {
        self.queues.iter().for_each(|queue| core::mem::forget(queue.0.state.lock()));
        core::mem::forget(self.lists.lock());
    }

    /// Releases the lists and all queues.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has called `lock_all`.
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise all are held.
        unsafe {
            self.lists.force_unlock();
            self.queues.iter().for_each(|queue| queue.0.state.force_unlock());
        }
    }

    /// Returns the slots of a block.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the record of the block that `page` is in, if it is one of the first blocks.
    #[inline(always)]
    pub(crate) fn near(&self, page: u64) -> Option<&Block> {
        self.records.near_chunk((page >> self.shift).wrapping_sub(self.origin) as usize)
    }

    /// Returns the record of the block that `page` is in, if there ever was one.
    #[inline(never)]
    pub(crate) fn get(&self, page: u64) -> Option<&Block> {
        self.near(page).or_else(|| self.records.get(self.number(page)))
    }

    /// Returns the record of the block that `page` is in, and makes it if need be.
    pub(crate) fn reach(&self, page: u64) -> Result<&Block, OutOfMemory> {
        self.records.reach(self.number(page))?;
        self.get(page).ok_or(OutOfMemory)
    }

    /// Returns the number of the block that `page` is in. Blocks are placed from the middle of the
    /// span upwards, and below it only when there is no room.
    fn number(&self, page: u64) -> usize {
        let number = (page >> self.shift).wrapping_sub(self.origin);
        if number < self.total { number as usize } else { number.wrapping_add(self.total) as usize }
    }

    /// Returns the first page of the block that `page` is in.
    #[inline(always)]
    pub(crate) fn first(&self, page: u64) -> u64 {
        page & !(self.slots() - 1)
    }

    /// Returns all pages of the block that `page` is in.
    pub(crate) fn range(&self, page: u64) -> PageRange {
        let first = self.first(page);
        PageRange::of(first, first + self.slots())
    }

    /// Returns the slots of `block` that are neither held nor clean.
    pub(crate) fn dirty_of(&self, block: &Block) -> u64 {
        self.slots().saturating_sub(block.held() + block.clean())
    }

    /// Returns the bytes of metadata.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes() + self.queues.len() * size_of::<QueueState>() + self.linear.bytes()
    }
}

/// Returns as many slots as the original has: a sixteenth of the span for each CPU, but between 128
/// and 1024.
fn usual_slots(span: PageRange, cpus: usize) -> u64 {
    let share = span.len() / cpus.next_power_of_two() as u64 / 16;
    let share = share.clamp(LEAST_SLOTS, MAX_SLOTS as u64);
    1 << share.ilog2()
}

#[cfg(all(test, loom))]
mod models;
