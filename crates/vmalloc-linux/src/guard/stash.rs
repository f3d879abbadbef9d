//! The stash: memory of freed areas that waits to be moved behind others.
//!
//! ```text
//!   slots      │ ■■■■■■ │ ■■■··· │ ······ │ ■■ │ ·· │  …      room of 6, 6, 6, 2, 2 pages; ■ a page
//!   filled     by number of pages:  6: 1st   3: 2nd   2: 4th
//!   empty      by room:             6: 3rd   2: 5th
//! ```
//!
//! A **slot** is a range of addresses outside the span. Its pages are moved there with one call,
//! and from there to an area with another. A request takes a slot with as many pages as it wants,
//! or the end of a slot with more. A slot with a part of its pages left is listed by what is left.
//! It is filled again when it is empty.
//!
//! This file knows the slots, and moves nothing. A **run** is pages on their way: between
//! [`Stash::take`] or [`Stash::room`] and the call that ends it, no other thread gets its pages.
//!
//! Invariants:
//! - **S1** A slot is in one list: by its pages if it has some, else by its room. While it is empty
//!   and has runs under way, it is in none.
//! - **S2** `kept` is the number of pages in slots, and of pages that runs of [`Stash::room`] may
//!   bring. It never passes the budget.
//!
//! Each shard has slots of its own, and one lock, which is held for a few steps and over no call.
//! A child of a fork does not have the pages: it begins with empty shards.

use crate::os::futex::FutexLock;
use crate::os::reservation::{Access, Mapping};
use lock_api::Mutex;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of the largest run, and one.
pub(crate) const RUN_END: u64 = 1024;

/// The most shards: CPUs that share one rarely meet in it, for the calls of the kernel around it
/// take a hundred times as long.
const SHARDS: usize = 8;

/// Rooms up to this many pages are exact; above, there are four for each doubling.
const EXACT: u64 = 8;

/// How many rooms there are: up to 1, 2 … 8, 10, 12, 14, 16, 20 … 1024 pages.
const ROOMS: usize = 36;

/// No slot.
const NONE: u32 = u32::MAX;

/// The index of the smallest room for so many pages.
const fn room_index(pages: u64) -> usize {
    if pages <= EXACT {
        return pages as usize - 1;
    }
    // For 9 … 16 pages the step is 2, for 17 … 32 it is 4.
    let doubling = (pages - 1).ilog2() - EXACT.ilog2();
    let step = pages.div_ceil(2 << doubling) - 4;
    EXACT as usize + 4 * doubling as usize + step as usize - 1
}

/// Returns the pages of the room at `index`.
const fn room_pages(index: usize) -> u64 {
    let index = index as u64;
    if index < EXACT {
        return index + 1;
    }
    let (doubling, step) = ((index - EXACT) / 4, (index - EXACT) % 4 + 1);
    (4 + step) * (2 << doubling)
}

/// The largest room is that of the largest run.
const _: () = assert!(room_pages(ROOMS - 1) == RUN_END && room_index(RUN_END - 1) == ROOMS - 1);

/// A range of addresses for the pages of one run.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct StashSlot {
    /// The next slot of its list.
    next: u32,
    /// The first page, from the start of the shard.
    first: u32,
    /// Pages that it holds, from the first.
    len: u16,
    /// The index of its room.
    room: u16,
    /// Runs of it that are under way.
    runs: u32,
}

/// Pages on their way into a slot, or out of one.
#[derive(Debug)]
#[must_use = "the slot is in no list before the run ends"]
pub(crate) struct StashRun {
    /// The first page.
    pub(crate) page: u64,
    /// How many pages it has.
    pub(crate) pages: u64,
    shard: usize,
    slot: u32,
}

/// A slot, the first of its pages, from the start of the shard, and how many.
type SlotPages = (u32, u64, u64);

/// The state that the lock of a shard protects.
#[derive(Debug)]
struct Shard {
    /// The memory of the slots; only what is touched is there.
    slots: Mapping,
    /// Slots that were made.
    made: u32,
    /// Pages that they take.
    used: u64,
    /// Slots by the pages that they hold.
    filled: [u32; RUN_END as usize],
    /// A bit for each such list that is not empty.
    lists: [u64; RUN_END as usize / 64],
    /// Empty slots, by room.
    empty: [u32; ROOMS],
}

/// The stash of one span.
#[derive(Debug)]
pub(crate) struct Stash {
    memory: Mapping,
    /// The first page of the memory.
    base: u64,
    /// Pages of a shard.
    shard_pages: u64,
    /// The most pages to keep.
    budget: u64,
    kept: AtomicU64,
    shards: Box<[Mutex<FutexLock, Shard>]>,
}

impl Stash {
    /// Returns an empty stash that keeps up to `bytes`, on a machine with `cpus` CPUs.
    pub(crate) fn new(bytes: usize, page_shift: u32, cpus: usize) -> Result<Self, Errno> {
        let (budget, count) = ((bytes >> page_shift) as u64, cpus.clamp(1, SHARDS));
        // Room for all of the budget in slots of any one size; and one larger slot for each size.
        let shard_pages = ROOMS as u64 * (budget + RUN_END);
        // The number of a page in a shard is a word.
        let total = Some(shard_pages).filter(|pages| *pages < u64::from(NONE));
        let total = total.and_then(|pages| (pages as usize).checked_mul(count)?.checked_shl(page_shift));
        let memory = Mapping::new(total.ok_or(Errno::NOMEM)?, Access::ReadWrite)?;
        let shards = (0..count).map(|_| Shard::new(budget).map(Mutex::new)).collect::<Result<_, _>>()?;
        let base = memory.base().addr().get() as u64 >> page_shift;
        Ok(Self { memory, base, shard_pages, budget, kept: AtomicU64::new(0), shards })
    }

    /// Returns the addresses of the slots.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// Returns how many pages are kept.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns how many pages go beyond the budget with so many more; 0 where it is too small for
    /// them altogether.
    pub(crate) fn lacking(&self, pages: u64) -> u64 {
        if pages > self.budget { 0 } else { (self.kept() + pages).saturating_sub(self.budget) }
    }

    /// Takes up to `most` pages of the smallest run that has `least`, best from the shard of `cpu`.
    pub(crate) fn take(&self, cpu: usize, least: u64, most: u64) -> Option<StashRun> {
        if self.kept() < least {
            return None;
        }
        let own = cpu % self.shards.len();
        let found = self.shards[own].lock().take(least, most).map(|pages| (own, pages));
        let (id, pages) = found.or_else(|| self.take_elsewhere(own, least, most))?;
        let run = self.run(id, pages);
        // Relaxed: a number and nothing else.
        self.kept.fetch_sub(run.pages, Ordering::Relaxed);
        Some(run)
    }

    #[cold]
    fn take_elsewhere(&self, own: usize, least: u64, most: u64) -> Option<(usize, SlotPages)> {
        let mut others = (0..self.shards.len()).filter(|other| *other != own);
        // A shard that is held is passed by.
        others.find_map(|id| Some((id, self.shards[id].try_lock()?.take(least, most)?)))
    }

    fn run(&self, shard: usize, (slot, first, pages): SlotPages) -> StashRun {
        StashRun { page: self.base + shard as u64 * self.shard_pages + first, pages, shard, slot }
    }

    /// Ends a run of [`take`](Self::take): its pages have left the slot.
    pub(crate) fn taken(&self, run: StashRun) {
        self.shards[run.shard].lock().end_run(run.slot);
    }

    /// Returns an empty slot for `pages` pages, fewer than [`RUN_END`], if the budget allows it.
    pub(crate) fn room(&self, cpu: usize, pages: u64) -> Option<StashRun> {
        // Relaxed: a number and nothing else.
        let kept = self.kept.fetch_add(pages, Ordering::Relaxed) + pages;
        let id = cpu % self.shards.len();
        let found = (kept <= self.budget).then(|| self.shards[id].lock().room(pages, self.shard_pages));
        let run = found.flatten().map(|pages| self.run(id, pages));
        if run.is_none() {
            self.kept.fetch_sub(pages, Ordering::Relaxed);
        }
        run
    }

    /// Ends a run of [`room`](Self::room): `moved` pages are in the slot now.
    pub(crate) fn filled(&self, run: StashRun, moved: u64) {
        self.kept.fetch_sub(run.pages - moved, Ordering::Relaxed);
        let mut shard = self.shards[run.shard].lock();
        shard.slot(run.slot).len = moved as u16;
        if moved != 0 {
            shard.push_filled(run.slot, moved);
        }
        shard.end_run(run.slot);
    }

    /// Empties the stash in a child of a fork, which has neither its pages nor other threads.
    pub(crate) fn start_anew(&self) {
        self.kept.store(0, Ordering::Relaxed);
        for shard in &self.shards {
            if shard.is_locked() {
                // SAFETY: another thread of the parent has locked it, which the child does not
                // have.
                unsafe { shard.force_unlock() };
            }
            shard.lock().clear();
        }
    }
}

impl Shard {
    fn new(budget: u64) -> Result<Self, Errno> {
        // As many slots as pages would do if there were no larger ones; slots of all sizes at once
        // are fewer than four times that.
        let slots = 4 * (budget + RUN_END) as usize * size_of::<StashSlot>();
        let slots = Mapping::new(slots, Access::ReadWrite)?;
        let (filled, lists) = ([NONE; RUN_END as usize], [0; RUN_END as usize / 64]);
        Ok(Self { slots, made: 0, used: 0, filled, lists, empty: [NONE; ROOMS] })
    }

    fn clear(&mut self) {
        (self.made, self.used) = (0, 0);
        (self.filled, self.lists) = ([NONE; RUN_END as usize], [0; RUN_END as usize / 64]);
        self.empty = [NONE; ROOMS];
    }

    fn slots(&mut self) -> &mut [StashSlot] {
        let count = self.slots.bytes() / size_of::<StashSlot>();
        // SAFETY: `new` has mapped room for so many slots, zeroed and aligned to a page, and any
        // bytes are a slot. The mapping is this shard's alone, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.slots.base().as_ptr().cast(), count) }
    }

    fn slot(&mut self, slot: u32) -> &mut StashSlot {
        &mut self.slots()[slot as usize]
    }

    /// Takes up to `most` pages of a slot that has `least`.
    fn take(&mut self, least: u64, most: u64) -> Option<SlotPages> {
        let len = self.list_from(least)?;
        let id = self.pop_filled(len);
        let slot = self.slot(id);
        let pages = most.min(len);
        slot.runs += 1;
        slot.len -= pages as u16;
        let (first, left) = (u64::from(slot.first), u64::from(slot.len));
        if left != 0 {
            self.push_filled(id, left);
        }
        Some((id, first + left, pages))
    }

    /// Ends a run of a slot.
    fn end_run(&mut self, id: u32) {
        let slot = self.slot(id);
        slot.runs -= 1;
        if slot.runs == 0 && slot.len == 0 {
            let room = slot.room as usize;
            let next = std::mem::replace(&mut self.empty[room], id);
            self.slot(id).next = next;
        }
    }

    /// Takes an empty slot, or makes one.
    fn room(&mut self, pages: u64, shard_pages: u64) -> Option<SlotPages> {
        let room = room_index(pages);
        let id = match self.empty[room] {
            NONE => self.make(room, shard_pages)?,
            id => {
                self.empty[room] = self.slot(id).next;
                id
            }
        };
        let slot = self.slot(id);
        slot.runs += 1;
        Some((id, u64::from(slot.first), pages))
    }

    #[cold]
    fn make(&mut self, room: usize, shard_pages: u64) -> Option<u32> {
        let (id, first) = (self.made, self.used as u32);
        let used = self.used + room_pages(room);
        if used > shard_pages || id as usize >= self.slots().len() {
            return None;
        }
        (self.made, self.used) = (id + 1, used);
        *self.slot(id) = StashSlot { next: NONE, first, len: 0, room: room as u16, runs: 0 };
        Some(id)
    }

    fn push_filled(&mut self, id: u32, pages: u64) {
        let next = std::mem::replace(&mut self.filled[pages as usize], id);
        self.slot(id).next = next;
        self.lists[pages as usize / 64] |= 1 << (pages % 64);
    }

    fn pop_filled(&mut self, pages: u64) -> u32 {
        let id = self.filled[pages as usize];
        let next = self.slot(id).next;
        self.filled[pages as usize] = next;
        if next == NONE {
            self.lists[pages as usize / 64] &= !(1 << (pages % 64));
        }
        id
    }

    /// Returns the smallest number of pages, from `pages` on, that a slot holds.
    fn list_from(&self, pages: u64) -> Option<u64> {
        let first = pages as usize / 64;
        let from = |at: usize| self.lists[at] & if at == first { u64::MAX << (pages % 64) } else { u64::MAX };
        let at = (first..self.lists.len()).find(|at| from(*at) != 0)?;
        Some(at as u64 * 64 + u64::from(from(at).trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIFT: u32 = 12;

    fn stash(pages: usize) -> Stash {
        Stash::new(pages << SHIFT, SHIFT, 1).unwrap()
    }

    fn put(stash: &Stash, pages: u64) -> u64 {
        let run = stash.room(0, pages).unwrap();
        let page = run.page;
        stash.filled(run, pages);
        page
    }

    #[test]
    fn every_number_of_pages_has_the_smallest_room() {
        for pages in 1..RUN_END {
            let index = room_index(pages);
            assert!(room_pages(index) >= pages, "{pages}");
            assert!(index == 0 || room_pages(index - 1) < pages, "{pages}");
        }
    }

    #[test]
    fn a_run_is_exact_or_cut_from_a_larger_one() {
        let stash = stash(1000);
        let [ten, three] = [10, 3].map(|pages| put(&stash, pages));
        let exact = stash.take(0, 3, 3).unwrap();
        assert_eq!((exact.page, exact.pages), (three, 3));
        let cut = stash.take(0, 4, 4).unwrap();
        assert_eq!((cut.page, cut.pages), (ten + 6, 4));
        assert!(stash.take(0, 7, 7).is_none(), "six are left");
        let rest = stash.take(0, 1, 20).unwrap();
        assert_eq!((rest.page, rest.pages, stash.kept()), (ten, 6, 0));
        assert!(stash.take(0, 1, 1).is_none());
        // The slot is empty, but not before the last of its runs has ended.
        stash.taken(rest);
        assert_ne!(put(&stash, 10), ten);
        stash.taken(cut);
        stash.taken(exact);
        assert_eq!(put(&stash, 9), ten);
    }

    #[test]
    fn the_budget_holds_and_failed_runs_give_it_back() {
        let stash = stash(10);
        let run = stash.room(0, 7).unwrap();
        assert!(stash.room(0, 4).is_none());
        assert_eq!([3, 4, 10, 11].map(|pages| stash.lacking(pages)), [0, 1, 7, 0]);
        stash.filled(run, 2);
        assert_eq!(stash.kept(), 2);
        let all = stash.room(0, 8).unwrap();
        stash.filled(all, 0);
        assert_eq!(stash.kept(), 2);
        assert!(self::stash(0).room(0, 1).is_none());
    }

    #[test]
    fn random_runs_never_meet() {
        let (stash, mut x, mut held) = (stash(3000), 1_u64, Vec::new());
        let mut random = |below: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % below
        };
        let turns = if cfg!(miri) { 200 } else { 20_000 };
        let mut filled = std::collections::BTreeSet::new();
        for _ in 0..turns {
            let pages = 1 + random(100);
            match random(3) {
                0 => {
                    let Some(run) = stash.room(0, pages) else { continue };
                    let moved = random(pages + 1);
                    for page in run.page..run.page + moved {
                        assert!(filled.insert(page), "a page was there");
                    }
                    stash.filled(run, moved);
                }
                1 => {
                    let Some(run) = stash.take(0, pages / 2 + 1, pages) else { continue };
                    assert!((pages / 2 + 1..=pages).contains(&run.pages));
                    (run.page..run.page + run.pages).for_each(|page| assert!(filled.remove(&page)));
                    held.push(run);
                }
                _ => held.drain(..).for_each(|run| stash.taken(run)),
            }
            assert_eq!(stash.kept(), filled.len() as u64);
        }
        stash.start_anew();
        assert!(stash.kept() == 0 && stash.take(0, 1, 1).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it forks")]
    fn a_child_begins_anew_whatever_lock_another_thread_had() {
        let stash = stash(100);
        put(&stash, 5);
        let lock = || std::mem::forget(stash.shards[0].lock());
        std::thread::scope(|scope| scope.spawn(lock).join().unwrap());
        vmalloc_harness::in_forked_child(|| {
            // SAFETY: no conditions. It ends a child that waits for ever.
            unsafe { libc::alarm(10) };
            stash.start_anew();
            put(&stash, 5);
            stash.kept() == 5
        });
    }
}
