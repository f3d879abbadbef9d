//! The platform: what the allocator asks for, in terms of tables and shootdowns.
//!
//! ```text
//!   map       tables ──► frames into entries, not present ──► present        (a refusal in between gives all back: nobody saw them)
//!   unmap     present ──► stale, with its frame; this CPU forgets
//!   flush     shootdown ──► stale entries ──► none, their frames to the supply
//! ```

use crate::entry::{Bits, ENTRIES, Entry, PAGE_SHIFT, TABLE_SHIFT, allows};
use crate::lock::{IrqLock, OpenLock};
use crate::machine::{MAX_CPUS, Machine};
use crate::shootdown::{Lost, Shootdown};
use crate::tables::{NoTable, Run, Slot, Tables};
use core::convert::Infallible;
use core::fmt;
use vmalloc::{
    DirectMemory, DrainReason, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform,
    PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate, Translate,
};

/// Frames that are taken or given at a time: a small array on the stack.
const BATCH: usize = 64;
/// Pages of this CPU that are forgotten one by one; see [`shootdown`](crate::shootdown).
const FEW: u64 = 33;
/// Bits of an address that page tables translate: 47 on either half.
const HALF_SHIFT: u32 = 47 - PAGE_SHIFT;

/// Why a span can't be managed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanError {
    /// Some of its addresses are not canonical: four levels translate 47 bits on either half of the address space.
    NotCanonical,
    /// There are more CPUs than [`MAX_CPUS`].
    TooManyCpus,
    /// No frames for the tables of the third level, of which there is one for each 512 GiB.
    NoTables,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotCanonical => "the span has addresses that four levels of tables do not translate",
            Self::TooManyCpus => "more CPUs than can be shot down",
            Self::NoTables => "out of frames for page tables",
        })
    }
}

impl core::error::Error for SpanError {}

/// A span of addresses on bare x86-64.
pub struct X86<M> {
    machine: M,
    span: PageRange,
    shootdown: Shootdown,
}

impl<M: Machine> X86<M> {
    /// The platform over `span`, whose top-level entries are made now: later all roots can share them.
    ///
    /// # Errors
    /// [`SpanError`]; tables that were made stay.
    ///
    /// # Safety
    /// The machine is as the crate's documentation assumes, and nothing else uses the addresses of `span`.
    pub unsafe fn new(machine: M, span: PageRange) -> Result<Self, SpanError> {
        let (low, high) = (1 << HALF_SHIFT, (1 << (u64::BITS - PAGE_SHIFT)) - (1 << HALF_SHIFT));
        if span.end() > low && span.start() < high || span.end() > 1 << (u64::BITS - PAGE_SHIFT) {
            return Err(SpanError::NotCanonical);
        }
        if machine.cpus() > MAX_CPUS {
            return Err(SpanError::TooManyCpus);
        }
        let mut page = span.start();
        while page < span.end() {
            Tables(&machine).make(page, 3).map_err(|NoTable| SpanError::NoTables)?;
            page = ((page >> (3 * TABLE_SHIFT)) + 1) << (3 * TABLE_SHIFT);
        }
        Ok(Self { machine, span, shootdown: Shootdown::new() })
    }

    /// The machine below.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// What the handler of the interrupt does that [`Machine::interrupt`] sends: forgets what was asked for, and says so. Takes no lock.
    #[inline]
    pub fn acknowledge(&self) {
        self.shootdown.acknowledge(&self.machine, self.machine.cpu());
    }

    /// Called by a CPU once it counts as online, before it touches the span.
    pub fn join(&self) {
        self.shootdown.join(&self.machine, self.machine.cpu());
    }

    fn tables(&self) -> Tables<'_, M> {
        Tables(&self.machine)
    }

    /// Makes every CPU forget `ranges`.
    fn shoot(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.shootdown.run(&self.machine, ranges).map_err(|Lost { cpu }| PlatformError {
            call: "shootdown: no answer from the CPU of that number",
            fault: PlatformFault::Other,
            code: cpu as i32,
        })
    }

    /// Makes this CPU forget `ranges`.
    fn forget_here(&self, ranges: &[PageRange]) {
        if ranges.iter().map(PageRange::len).sum::<u64>() > FEW {
            return self.machine.invalidate_all();
        }
        for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
            self.machine.invalidate(addr(page));
        }
    }

    /// Makes the tables that base pages of `range` need.
    fn make_tables(&self, range: PageRange) -> Result<(), PlatformError> {
        let mut page = range.start();
        while page < range.end() {
            self.tables().make(page, 1).map_err(|NoTable| out_of_memory("page table"))?;
            page = ((page >> TABLE_SHIFT) + 1) << TABLE_SHIFT;
        }
        Ok(())
    }

    /// The entries of `range`, if one table has them all; else its tables are made now.
    #[inline]
    fn reach(&self, range: PageRange) -> Result<Option<Run<'_>>, PlatformError> {
        let run = self.tables().make_run(range).map_err(|NoTable| out_of_memory("page table"))?;
        if run.is_none() {
            self.make_tables(range)?;
        }
        Ok(run)
    }

    /// Puts as many frames of the supply into the entries of `range`, of `run` if that has them all: one request, which fails as a whole or not
    /// at all.
    #[inline]
    fn fill<const MOST: usize>(
        &self,
        range: PageRange,
        run: Option<Run<'_>>,
        bits: Bits,
    ) -> Result<(), PlatformError> {
        let mut frames = [Frame(0); MOST];
        let frames = &mut frames[..range.len() as usize];
        if !self.machine.take_frames(frames) {
            return Err(out_of_memory("frames"));
        }
        match run {
            Some(run) => run.put(frames, bits),
            None => self.put(range, frames, bits),
        }
        Ok(())
    }

    /// The same for any number of pages, whose tables there are. What was put there before a refusal stays.
    fn fill_many(&self, range: PageRange, bits: Bits) -> Result<(), PlatformError> {
        let mut start = range.start();
        while let Some(part) = PageRange::new(start, range.end().min(start + BATCH as u64)) {
            self.fill::<BATCH>(part, None, bits)?;
            start = part.end();
        }
        Ok(())
    }

    /// Writes `frames` into the entries of `range`, which has tables and no leaves above them.
    fn put(&self, range: PageRange, frames: &[Frame], bits: Bits) {
        let mut rest = frames;
        self.visit_runs(range, |run, part| {
            let Some((these, others)) = rest.split_at_checked(part.len() as usize) else { return };
            run.put(these, bits);
            rest = others;
        });
    }

    /// Calls `act` for all entries of `range`, as many at a time as one table has.
    #[inline]
    fn visit_runs(&self, range: PageRange, mut act: impl FnMut(Run<'_>, PageRange)) {
        let act = |run: Run<'_>, part| {
            act(run, part);
            Ok::<(), Infallible>(())
        };
        match self.tables().each(range, act) {
            Ok(()) => {}
        }
    }

    /// Calls `act` for every entry of `range`.
    #[inline]
    fn visit(&self, range: PageRange, mut act: impl FnMut(&Slot<'_>)) {
        self.visit_runs(range, |run, _| run.slots().for_each(|slot| act(&slot)));
    }

    /// As `visit`, after leaves that lie in `range` only in part have been split.
    fn visit_pages(&self, range: PageRange, act: &mut impl FnMut(&Slot<'_>)) -> Result<(), PlatformError> {
        self.tables().each(range, |run, part| {
            let leaf = if run.order == 0 || part.len() == 1 << run.order { None } else { run.first() };
            let Some(leaf) = leaf else {
                run.slots().for_each(|slot| act(&slot));
                return Ok(());
            };
            if leaf.get() == Entry::NONE {
                return Ok(());
            }
            self.tables().split(&leaf).map_err(|NoTable| out_of_memory("page table"))?;
            self.visit_pages(part, act)
        })
    }

    /// Gives the frames back that entries of `range` own and that are not present.
    fn reclaim(&self, range: PageRange) {
        let (mut frames, mut count) = ([Frame(0); BATCH], 0);
        let mut give = |frame: Frame| {
            frames[count] = frame;
            count += 1;
            if count == BATCH {
                // SAFETY: owned by an entry that is gone, and no CPU translates to it: it was never present, or was shot down.
                unsafe { self.machine.give_frames(&frames) };
                count = 0;
            }
        };
        self.visit(range, |slot| {
            let entry = slot.get();
            if entry.has(Bits::OWNED) && !entry.has(Bits::PRESENT) {
                slot.set(Entry::NONE);
                (0..1 << slot.order).for_each(|nth| give(entry.frame().plus(nth)));
            }
        });
        // SAFETY: as above.
        unsafe { self.machine.give_frames(&frames[..count]) };
    }

    /// A leaf of 2^order pages at `page`, owned and not present, if the supply has a run for it.
    fn put_leaf(&self, page: u64, order: u32, bits: Bits) -> bool {
        let Ok(slot) = self.tables().make(page, order / TABLE_SHIFT + 1) else { return false };
        let before = slot.get();
        // A table whose place the leaf takes: of the lowest level, it is empty, for its pages are the caller's.
        if before != Entry::NONE && order > TABLE_SHIFT {
            return false;
        }
        let Some(first) = self.machine.take_run(1 << order, 1 << order) else { return false };
        let leaf = Entry::new(first, bits | Bits::LARGE);
        if before == Entry::NONE {
            slot.set(leaf);
            return true;
        }
        self.replace_table(&slot, before, leaf, page)
    }

    /// No CPU may come to the table any more before its frame is used for something else.
    #[cold]
    fn replace_table(&self, slot: &Slot<'_>, table: Entry, leaf: Entry, page: u64) -> bool {
        slot.set(leaf);
        let range = PageRange::from_len(page, ENTRIES);
        if range.is_some_and(|range| self.shoot(&[range]).is_ok()) {
            // SAFETY: an empty table that no CPU reaches any more.
            unsafe { self.machine.give_frames(&[table.frame()]) };
            return true;
        }
        slot.set(table);
        for nth in 0..ENTRIES {
            // SAFETY: taken for the leaf, which was never present.
            unsafe { self.machine.give_frames(&[leaf.frame().plus(nth)]) };
        }
        false
    }

    /// The largest order of a leaf that could stand at `page` and end inside `range`.
    fn leaf_order(page: u64, range: PageRange) -> Option<u32> {
        let fits = |order: &u32| page.trailing_zeros() >= *order && range.end() - page >= 1 << *order;
        [2 * TABLE_SHIFT, TABLE_SHIFT].into_iter().find(fits)
    }

    /// Owned entries for all of `range`, not present: leaves where they go, base pages elsewhere.
    fn prepare_huge(&self, range: PageRange, bits: Bits) -> Result<(), PlatformError> {
        let mut page = range.start();
        while page < range.end() {
            let leaf = Self::leaf_order(page, range);
            let orders = [leaf, leaf.map(|_| TABLE_SHIFT)].into_iter().flatten();
            if let Some(order) = { orders }.find(|&order| self.put_leaf(page, order, bits)) {
                page += 1 << order;
                continue;
            }
            let end = (((page >> TABLE_SHIFT) + 1) << TABLE_SHIFT).min(range.end());
            let Some(part) = PageRange::new(page, end) else { break };
            self.make_tables(part)?;
            self.fill_many(part, bits)?;
            page = end;
        }
        Ok(())
    }

    /// Makes all entries of `range` that were prepared present.
    fn show(&self, range: PageRange, protection: Protection) {
        let bits = Bits::PRESENT | allows(protection);
        self.visit(range, |slot| slot.set(slot.get().with(bits)));
    }

    fn entry(&self, page: u64) -> Option<(Entry, u64)> {
        let slot = self.tables().find(page).ok()?;
        let entry = slot.get();
        let inside = page & ((1 << slot.order) - 1);
        entry.has(Bits::PRESENT).then_some((entry, inside))
    }
}

fn addr(page: u64) -> usize {
    (page << PAGE_SHIFT) as usize
}

fn out_of_memory(call: &'static str) -> PlatformError {
    PlatformError { call, fault: PlatformFault::OutOfMemory, code: 0 }
}

// SAFETY: the span is the caller's of `new`. Pages are present from `map` to `unmap`, and lead to frames that nobody else has; frames go back after
// every CPU has acknowledged. `zeroes` says that new pages are of any content. The locks exclude.
unsafe impl<M: Machine> Platform for X86<M> {
    type RawLock = IrqLock<M>;
    type PurgeLock = OpenLock;

    fn geometry(&self) -> Geometry {
        let linear = self.machine.direct_map() as u64 >> PAGE_SHIFT;
        Geometry::new(self.span, PAGE_SHIFT, self.machine.cpus())
            .huge_order(Some(TABLE_SHIFT))
            .maps_zeroed(false)
            .linear_map(PageRange::from_len(linear, self.machine.frames()))
    }

    #[inline]
    fn cpu(&self) -> usize {
        self.machine.cpu()
    }

    unsafe fn map(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        let run = self.reach(range)?;
        let present = Bits::PRESENT | Bits::OWNED | allows(protection);
        // Arrays on the stack are no larger than they have to be, for they are cleared.
        match range.len() {
            0..=4 => self.fill::<4>(range, run, present),
            5..=16 => self.fill::<16>(range, run, present),
            17..=64 => self.fill::<BATCH>(range, run, present),
            _ => {
                self.fill_many(range, Bits::OWNED).inspect_err(|_| self.reclaim(range))?;
                self.show(range, protection);
                Ok(())
            }
        }
    }

    unsafe fn map_huge(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.prepare_huge(range, Bits::OWNED).inspect_err(|_| self.reclaim(range))?;
        self.show(range, protection);
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for &range in ranges {
            self.visit_pages(range, &mut |slot| {
                let entry = slot.get();
                if entry.has(Bits::PRESENT) {
                    let owned = entry.has(Bits::OWNED);
                    slot.set(if owned {
                        entry.without(Bits::PRESENT).with(Bits::STALE)
                    } else {
                        Entry::NONE
                    });
                }
            })?;
        }
        self.forget_here(ranges);
        Ok(())
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.shoot(ranges)?;
        ranges.iter().for_each(|&range| self.reclaim(range));
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        let start = core::ptr::with_exposed_provenance_mut::<u8>(addr(range.start()));
        // SAFETY: the range is mapped, writable, and the caller's alone.
        unsafe { start.write_bytes(0, (range.len() << PAGE_SHIFT) as usize) };
    }

    fn drain_later(&self, due: DrainReason) -> bool {
        self.machine.drain_later(due)
    }

    fn wake_drain(&self) -> bool {
        self.machine.wake_drain()
    }

    fn entropy(&self) -> u64 {
        self.machine.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.machine.fatal(damage)
    }
}

// SAFETY: mapped pages are memory at their own addresses, and page 0 is in no span.
unsafe impl<M: Machine> DirectMemory for X86<M> {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl<M: Machine> Relocate for X86<M> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.make_tables(to)?;
        self.split_all(from)?;
        // Nothing can fail from here on.
        let mut page = to.start();
        self.visit(from, |slot| {
            let entry = slot.get();
            if entry.has(Bits::PRESENT)
                && let Some(one) = PageRange::from_len(page, 1)
            {
                self.visit(one, |slot| slot.set(entry));
                slot.set(Entry::NONE);
            }
            page += 1;
        });
        self.forget_here(&[from]);
        Ok(())
    }
}

// SAFETY: the machine hands frames out once; entries lead where `put` says, until they are unmapped; the direct map is constant.
unsafe impl<M: Machine> FrameSupply for X86<M> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        if self.machine.take_frames(frames) { Ok(()) } else { Err(out_of_memory("frames")) }
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.machine.take_run(count, align).ok_or(out_of_memory("frames"))
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the caller's promise.
        unsafe { self.machine.give_frames(frames) };
    }

    #[inline]
    fn origin(&self, frame: Frame) -> Origin {
        self.machine.origin(frame)
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl<M: Machine> MapFrames for X86<M> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let bits = Bits::PRESENT | allows(protection);
        match self.reach(range)? {
            Some(run) => run.put(frames, bits),
            None => self.put(range, frames, bits),
        }
        Ok(())
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        self.visit(range, |slot| slot.set(Entry::NONE));
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        let (entry, inside) = self.entry(page)?;
        (!entry.has(Bits::OWNED)).then(|| entry.frame().plus(inside))
    }

    fn first_mapped(&self, range: PageRange) -> Option<u64> {
        let leads = |slot: &Slot<'_>| {
            let entry = slot.get();
            entry.has(Bits::PRESENT) && !entry.has(Bits::OWNED)
        };
        // Tables that are not there are skipped whole.
        let found = self.tables().each(range, |run, part| {
            match run.slots().zip(part.start()..).find(|(slot, _)| leads(slot)) {
                Some((_, page)) => Err(page),
                None => Ok(()),
            }
        });
        found.err()
    }
}

// SAFETY: entries say what may be done, and every CPU has forgotten the old ones on return.
unsafe impl<M: Machine> Protect for X86<M> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.visit_pages(range, &mut |slot| {
            let entry = slot.get();
            if entry.has(Bits::PRESENT) {
                slot.set(entry.protected(protection));
            }
        })?;
        self.shoot(&[range])
    }
}

/// Reads through the direct map, where nothing faults; a page that is unmapped meanwhile is read as whatever its frame holds.
impl<M: Machine> ReadNofault for X86<M> {
    fn read_nofault(&self, start: usize, to: &mut [u8]) -> usize {
        for (copied, byte) in to.iter_mut().enumerate() {
            let at = start.wrapping_add(copied);
            let Some(from) = self.direct(at) else { return copied };
            // SAFETY: memory of the supply, through the direct map. Volatile: others may write it meanwhile.
            *byte = unsafe { from.read_volatile() };
        }
        to.len()
    }
}

impl<M: Machine> X86<M> {
    /// Where the byte at `addr` can be read at any time, if it is memory: reading a device would do something.
    fn direct(&self, addr: usize) -> Option<*const u8> {
        let (entry, inside) = self.entry(addr as u64 >> PAGE_SHIFT)?;
        let frame = entry.frame().plus(inside);
        let offset = addr & ((1 << PAGE_SHIFT) - 1);
        let readable = frame.0 < self.machine.frames() && self.machine.origin(frame) != Origin::Device;
        readable.then(|| {
            let direct = self.machine.direct_map() + (frame.0 << PAGE_SHIFT) as usize + offset;
            core::ptr::with_exposed_provenance(direct)
        })
    }

    /// Splits every leaf in `range` down to base pages.
    fn split_all(&self, range: PageRange) -> Result<(), PlatformError> {
        loop {
            let mut split = false;
            self.tables().each(range, |run, _| {
                let Some(leaf) = run.first().filter(|leaf| leaf.order > 0) else { return Ok(()) };
                split = true;
                self.tables().split(&leaf).map_err(|NoTable| out_of_memory("page table"))
            })?;
            if !split {
                return Ok(());
            }
        }
    }
}

/// The frame behind a page, whoever owns it.
impl<M: Machine> Translate for X86<M> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        let (entry, inside) = self.entry(page)?;
        Some(entry.frame().0 + inside)
    }
}
