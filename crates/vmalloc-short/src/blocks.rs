//! The blocks of a space: their records, queues and lists.

use super::linear::Linear;
use super::lists::Lists;
use super::slots::{Block, MAX_SLOTS};
use super::windows::{ORDERS, Queue};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::{Mutex, RawMutex};
use vmalloc::PageRange;
use vmalloc::area_map::parts::{OutOfMemory, RowArray, try_zeroed};
use vmalloc::sync::size;
use zerocopy::FromZeros;

/// The most pages of a request that blocks serve: one word of bits in the original.
pub const MOST_PAGES: u64 = size(64, 4);

const _: () =
    assert!(MOST_PAGES <= 64, "one byte says how many pages are mapped, and whether they were returned");

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

/// A value on cache lines of its own, two at a time as the prefetcher takes them.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> core::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The blocks of a space, and the mappings in its linear map.
pub(crate) struct Blocks<L> {
    // Constant.
    /// True if dirty slots may be handed out at once.
    pub(crate) remaps_atomically: bool,
    /// log2 of the slots of a block.
    shift: u32,
    /// The block that is number 0, and how many a whole span has: numbers go round.
    origin: u64,
    total: u64,
    /// On the heap, so that blocks are small enough for any stack.
    pub(crate) records: Box<RowArray<'static, Block, 1>>,

    pub(crate) queues: Box<[Padded<Queue<L>>]>,
    pub(crate) lists: Padded<Mutex<L, Lists>>,
    pub(crate) linear: Linear,
}

impl<L: RawMutex> Blocks<L> {
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
            records: try_zeroed().ok()?,
            queues: list.into_boxed_slice(),
            lists: Padded(Mutex::new(Lists::default())),
            linear: Linear::new_zeroed(),
        })
    }

    /// Returns the slots of a block.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the record of the block that `page` is in, if it is one of the first blocks.
    #[inline(always)]
    pub(crate) fn near(&self, page: u64) -> Option<&Block> {
        self.records.near_row((page >> self.shift).wrapping_sub(self.origin) as usize)
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
}

/// Returns as many slots as the original has: a sixteenth of the span for each CPU, but between 128
/// and 1024.
fn usual_slots(span: PageRange, cpus: usize) -> u64 {
    let share = span.len() / cpus.next_power_of_two() as u64 / 16;
    let share = share.clamp(LEAST_SLOTS, MAX_SLOTS as u64);
    1 << share.ilog2()
}
