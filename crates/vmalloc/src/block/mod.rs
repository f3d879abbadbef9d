//! Blocks: addresses for mappings that live shortly, at the price of a few stores.
//!
//! A block is an area of up to 1024 pages, its *slots*, cut from the space once and handed out piece by piece: a request of
//! up to 64 pages takes 2^order slots. Which CPU maps decides which queue is asked; who unmaps touches only the block.
//! (The idea is Linux's `vm_map_ram`, 2008; blocks at the tail of their queue, 2015.)
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
//! # Terms
//! - A **window** is a range of slots that one queue may hand out, from its start. A queue has one for each order.
//! - A slot is **live** (mapped), **dirty** (returned, and perhaps still translated somewhere), **clean**, or in a window.
//!
//! # Invariants
//! - **B1** The bytes of a block read from the first as a sequence of runs: 0 is one clean slot, `RESERVED + k` 2^k slots of a window
//!   (or just taken out of it by somebody who is about to write the next), `n` ≤ 64 a live run of n pages in 2^⌈log n⌉ slots, `n + KEPT` the same, returned and kept as it is mapped for who maps the same frames
//!   again, `n | DIRTY` the same returned for good. What the other bytes of a run hold does not
//!   matter. Of a block that is all clean no byte does.
//! - **B2** `held` = slots that are live or in a window. Who brings it to 0 says so to the [shelf](Shelf).
//! - **B3** `clean` = clean slots. What is neither held nor clean is dirty.
//! - **B4** Where a block is ([`Place`]) changes only with the shelf locked.
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
//! Beyond the original: a flush makes dirty slots clean while others live on, and a block with clean slots is opened again. So one
//! long-lived mapping pins itself and not a block. On a machine whose mappings [replace](crate::Geometry::remaps_atomically) what
//! was there, dirty slots are as good as clean ones.

mod queue;
mod record;
mod shelf;

pub(crate) use queue::{Hot, ORDERS, Queue, Slow, Window, place};
pub(crate) use record::{Block, MAX_SLOTS, MOST_KEPT, Mark, Place, Run};
pub(crate) use shelf::{List, Shelf};

use crate::addr::PageRange;
use crate::area_map::{Chunks, OutOfMemory, Stable};
use crate::space::Padded;
use crate::sync::size;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::{Mutex, RawMutex};

/// The most pages of a request that blocks serve: one word of bits in the original.
pub const MOST_PAGES: u64 = size(64, 4);

/// The fewest slots of a block, where the span is small.
const LEAST_SLOTS: u64 = size(128, 8);

/// The order for each number of pages.
const ORDER: [u8; MOST_PAGES as usize + 1] = {
    let mut order = [u8::MAX; MOST_PAGES as usize + 1];
    let mut pages = 1;
    while pages <= MOST_PAGES as usize {
        order[pages] = pages.next_power_of_two().trailing_zeros() as u8;
        pages += 1;
    }
    order
};

/// The order of a request of `pages` pages, which takes 2^order slots; that of no window if blocks do not serve it.
#[inline(always)]
pub(crate) fn order_of(pages: u64) -> usize {
    ORDER.get(pages as usize).map_or(usize::MAX, |&order| usize::from(order))
}

/// Slots for `pages` pages; 0 if blocks do not serve that.
#[inline(always)]
pub(crate) fn slots_for(pages: u64) -> u64 {
    if pages.wrapping_sub(1) < MOST_PAGES { 1 << order_of(pages) } else { 0 }
}

/// The blocks of a space.
pub(crate) struct Blocks<L> {
    // Constant.
    /// Whether dirty slots may be handed out at once.
    pub(crate) replaces: bool,
    /// log2 of the slots of a block.
    shift: u32,
    /// The block that is number 0, and how many a whole span has: numbers go round.
    origin: u64,
    total: u64,
    records: Chunks<Block, 1>,

    pub(crate) queues: Box<[Padded<Queue<L>>]>,
    pub(crate) shelf: Padded<Mutex<L, Shelf>>,
}

impl<L: RawMutex> Blocks<L> {
    /// No block yet, in `span`; `None` when memory is short.
    pub(crate) fn new(span: PageRange, queues: usize, slots: u64, replaces: bool) -> Option<Self> {
        let slots = if slots == 0 { usual_slots(span, queues) } else { slots };
        let shift = slots.trailing_zeros();
        let middle = span.start() + span.len() / 2;
        let mut list = Vec::new();
        list.try_reserve_exact(queues).ok()?;
        list.resize_with(queues, || Padded(Queue::default()));
        Some(Self {
            replaces,
            shift,
            origin: middle.div_ceil(slots),
            total: span.end().div_ceil(slots) - span.start() / slots,
            records: Chunks::default(),
            queues: list.into_boxed_slice(),
            shelf: Padded(Mutex::new(Shelf::default())),
        })
    }

    /// Slots of a block.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u64 {
        1 << self.shift
    }

    /// The record of the block that `page` is in, if it is one of the first blocks.
    #[inline(always)]
    pub(crate) fn near(&self, page: u64) -> Option<&Block> {
        self.records.near((page >> self.shift).wrapping_sub(self.origin) as usize)
    }

    /// The record of the block that `page` is in, if there ever was one.
    #[inline(never)]
    pub(crate) fn get(&self, page: u64) -> Option<&Block> {
        self.records.get(self.number(page))
    }

    /// The same, made if need be.
    pub(crate) fn reach(&self, page: u64) -> Result<&Block, OutOfMemory> {
        self.records.reach(self.number(page))?;
        self.get(page).ok_or(OutOfMemory)
    }

    /// Blocks are placed from the middle of the span upwards, and below it only when there is no room.
    fn number(&self, page: u64) -> usize {
        let number = (page >> self.shift).wrapping_sub(self.origin);
        if number < self.total { number as usize } else { number.wrapping_add(self.total) as usize }
    }

    /// The first page of the block that `page` is in.
    #[inline(always)]
    pub(crate) fn first(&self, page: u64) -> u64 {
        page & !(self.slots() - 1)
    }

    /// All pages of the block that `page` is in.
    pub(crate) fn range(&self, page: u64) -> PageRange {
        let first = self.first(page);
        PageRange::of(first, first + self.slots())
    }

    /// The slots of `block` that are neither held nor clean.
    pub(crate) fn dirty_of(&self, block: &Block) -> u64 {
        self.slots().saturating_sub(block.held() + block.clean())
    }

    /// Bytes of metadata.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes() + self.queues.len() * size_of::<Slow>()
    }
}

/// As many as the original has: a sixteenth of the span for each CPU, but between 128 and 1024.
fn usual_slots(span: PageRange, cpus: usize) -> u64 {
    let share = span.len() / cpus.next_power_of_two() as u64 / 16;
    let share = share.clamp(LEAST_SLOTS, MAX_SLOTS as u64);
    1 << share.ilog2()
}

#[cfg(all(test, loom))]
mod models;
