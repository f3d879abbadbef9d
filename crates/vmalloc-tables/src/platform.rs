//! The platform: the requests of the allocator, in terms of tables and shootdowns.
//!
//! ```text
//!   map       tables ──► frames into entries, not present ──► present        (a refusal in between gives all back: no CPU saw them)
//!   unmap     present ──► stale, with its frame; this CPU forgets
//!   flush     shootdown ──► stale entries ──► none, their frames to the supply
//! ```

use crate::entry::{BATCH, Entry, no_frames, out_of_memory};
use crate::format::Format;
use crate::lock::{IrqLock, OpenLock};
use crate::machine::{FormatOf, Interrupts, MAX_CPUS, Machine, Reach, pinned};
use crate::run_search::{fills, runs_of};
use crate::shootdown::{Lost, Shootdown};
use crate::span::SpanError;
use crate::tables::{NoTable, Tables, order_of};
use alloc::vec::Vec;
use core::fmt;
use lock_api::Mutex;
use vmalloc::{
    DirectMemory, DrainReason, Frame, FrameRun, FrameSupply, Geometry, MapFrames, Origin, PageRange,
    Platform, PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate, Translate,
};

/// Pages of this CPU that are forgotten one by one; see [`shootdown`](crate::shootdown).
const FEW: u64 = 33;

/// A span of addresses on a bare machine.
pub struct PageTables<M: Interrupts> {
    pub(crate) machine: M,
    span: PageRange,
    shootdown: Shootdown,
    /// Held while an entry in use is broken, until it is made again.
    pub(crate) broken: Mutex<IrqLock<M>, ()>,
}

impl<M: Interrupts> fmt::Debug for PageTables<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageTables").field("span", &self.span).finish_non_exhaustive()
    }
}

impl<M: Machine> PageTables<M> {
    const PAGE_SHIFT: u32 = FormatOf::<M>::PAGE_SHIFT;
    /// log2 of the pages of either half of the address space.
    const HALF_SHIFT: u32 = FormatOf::<M>::HALF_SHIFT - FormatOf::<M>::PAGE_SHIFT;

    /// Makes the platform over `span`. Its top-level entries are made now: later all roots can
    /// share them.
    ///
    /// # Errors
    /// [`SpanError`]; tables that were made stay.
    ///
    /// # Safety
    /// The machine is as the crate's documentation assumes, and nothing else uses the addresses of
    /// `span`.
    pub unsafe fn new(machine: M, span: PageRange) -> Result<Self, SpanError> {
        let (half, all) = (Self::HALF_SHIFT, u64::BITS - Self::PAGE_SHIFT);
        let (low, high) = (1 << half, (1 << all) - (1 << half));
        if span.end() > low && span.start() < high || span.end() > 1 << all {
            return Err(SpanError::NotCanonical);
        }
        if !FormatOf::<M>::is_read_by(machine.translation()) {
            return Err(SpanError::OtherFormat);
        }
        if machine.root().0 >= machine.frames() {
            return Err(SpanError::RootOutOfReach);
        }
        if !FormatOf::<M>::REWRITES_LIVE && machine.reach() != Reach::All {
            return Err(SpanError::NoBroadcast);
        }
        if machine.cpus() > MAX_CPUS {
            return Err(SpanError::TooManyCpus);
        }
        let (mut page, top) = (span.start(), FormatOf::<M>::LEVELS);
        let shift = order_of::<FormatOf<M>>(top);
        while page < span.end() {
            Tables(&machine).make(page, top - 1).map_err(|NoTable| SpanError::NoTables)?;
            page = ((page >> shift) + 1) << shift;
        }
        let shootdown = Shootdown::new(machine.cpus()).ok_or(SpanError::NoMemory)?;
        machine.published(&[span]);
        Ok(Self { machine, span, shootdown, broken: Mutex::new(()) })
    }

    /// Returns the machine below.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Forgets the translations that other CPUs asked this one to forget, and says so. The handler
    /// of the interrupt that [`Machine::interrupt`] sends calls it. Takes no lock.
    #[inline]
    pub fn acknowledge(&self) {
        self.shootdown.acknowledge(&self.machine);
    }

    /// Forgets everything. A CPU calls it once it counts as online, before it touches the span.
    pub fn join(&self) {
        self.shootdown.join(&self.machine);
    }

    pub(crate) fn tables(&self) -> Tables<'_, M> {
        Tables(&self.machine)
    }

    /// Returns true if the access at `addr` that faulted is to be tried again. The kernel's handler
    /// of faults asks, with the protection that the access needs, wherever `addr` is in the span:
    /// the page may be there and its entry have been broken for a moment, or this CPU may have kept
    /// that it was not there. Takes no lock that the interrupted code may hold.
    #[must_use]
    pub fn is_back(&self, addr: usize, access: Protection) -> bool {
        let page = addr as u64 >> Self::PAGE_SHIFT;
        let Some((entry, _)) = self.entry(page) else { return false };
        let is_allowed = access == Protection::Read || entry == entry.protected(access);
        if is_allowed {
            self.machine.published(&[PageRange::of(page, page + 1)]);
        }
        is_allowed
    }

    /// Returns the bits of pages that are mapped with `protection`.
    pub(crate) fn shown(protection: Protection) -> u64 {
        FormatOf::<M>::PRESENT | FormatOf::<M>::access(protection)
    }

    /// Returns the bits of pages that show frames like `frame` with `protection`.
    fn shows(&self, frame: Option<&Frame>, protection: Protection) -> u64 {
        let is_device = FormatOf::<M>::DEVICE != 0
            && frame.is_some_and(|&frame| self.machine.origin(frame) == Origin::Device);
        Self::shown(protection) | if is_device { FormatOf::<M>::DEVICE } else { 0 }
    }

    /// Makes every CPU forget `ranges`.
    pub(crate) fn shoot(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if self.machine.reach() == Reach::All {
            self.forget_here(ranges);
            return Ok(());
        }
        self.shootdown.run(&self.machine, ranges).map_err(|Lost { cpu }| PlatformError {
            call: "shootdown: no answer from the CPU of that number",
            fault: PlatformFault::Other,
            code: cpu as i32,
        })
    }

    /// Makes this CPU forget `ranges`, or all CPUs where that reaches all.
    fn forget_here(&self, ranges: &[PageRange]) {
        if ranges.iter().map(PageRange::len).sum::<u64>() > FEW {
            return self.machine.forget_all();
        }
        self.machine.forget(ranges);
    }
}

// SAFETY: the span is the one that the caller of `new` promised. Pages are present from `map` to
// `unmap`, and lead to frames that have no other user. Frames go back after every CPU has
// acknowledged. The geometry says that new pages are not zeroed. The locks exclude.
unsafe impl<M: Machine> Platform for PageTables<M> {
    type RawLock = IrqLock<M>;
    type PurgeLock = OpenLock;
    type Context = M::Context;

    fn geometry(&self) -> Geometry {
        let linear = self.machine.direct_map() as u64 >> Self::PAGE_SHIFT;
        Geometry::new(self.span, Self::PAGE_SHIFT, self.machine.cpus())
            .huge_order(Some(FormatOf::<M>::TABLE_SHIFT))
            .maps_zeroed(false)
            .linear_map(PageRange::from_len(linear, self.machine.frames()))
    }

    #[inline]
    fn cpu(&self) -> usize {
        self.machine.cpu()
    }

    unsafe fn map(
        &self,
        range: PageRange,
        protection: Protection,
        context: M::Context,
    ) -> Result<(), PlatformError> {
        let run = self.reach(range)?;
        let present = FormatOf::<M>::OWNED | Self::shown(protection);
        // Arrays on the stack are no larger than they have to be, for they are cleared.
        match range.len() {
            0..=4 => self.fill::<4, 1>(range, run, present, context)?,
            5..=16 => self.fill::<16, 8>(range, run, present, context)?,
            17..=64 => self.fill::<BATCH, 16>(range, run, present, context)?,
            _ => {
                self.fill_many(range, FormatOf::<M>::OWNED, context).inspect_err(|_| self.reclaim(range))?;
                self.show(range, protection);
                return Ok(());
            }
        }
        self.machine.published(&[range]);
        Ok(())
    }

    unsafe fn map_huge(
        &self,
        range: PageRange,
        protection: Protection,
        context: M::Context,
    ) -> Result<(), PlatformError> {
        self.prepare_huge(range, FormatOf::<M>::OWNED, context).inspect_err(|_| self.reclaim(range))?;
        self.show(range, protection);
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for &range in ranges {
            self.visit_pages(range, &mut |slot| {
                let entry = slot.get();
                if entry.is_present() {
                    let owned = entry.has(FormatOf::<M>::OWNED);
                    slot.set(if owned {
                        // Present and not stale before, stale and not present now.
                        Entry::of(entry.0 ^ (FormatOf::<M>::PRESENT | FormatOf::<M>::STALE))
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
        // Where `unmap` has reached all CPUs, none holds a translation any more.
        if self.machine.reach() == Reach::This {
            self.shoot(ranges)?;
        }
        ranges.iter().for_each(|&range| self.reclaim(range));
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        let start =
            core::ptr::with_exposed_provenance_mut::<u8>((range.start() << Self::PAGE_SHIFT) as usize);
        // SAFETY: the range is mapped and writable, and only the caller uses it.
        unsafe { start.write_bytes(0, (range.len() << Self::PAGE_SHIFT) as usize) };
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
unsafe impl<M: Machine> DirectMemory for PageTables<M> {}

// SAFETY: `relocate` moves the entries themselves, so `to` holds the content that `from` held.
unsafe impl<M: Machine> Relocate for PageTables<M> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.make_tables(to)?;
        self.split_all(from)?;
        // Nothing can fail from here on.
        let mut page = to.start();
        self.visit(from, |slot| {
            let entry = slot.get();
            if entry.is_present() {
                let alone = entry.without(FormatOf::<M>::GROUP);
                self.visit(PageRange::of(page, page + 1), |slot| slot.set(alone));
                slot.set(Entry::NONE);
            }
            page += 1;
        });
        self.forget_here(&[from]);
        self.machine.published(&[to]);
        Ok(())
    }
}

// SAFETY: the machine hands frames out once. Entries lead where `put` says, until they are
// unmapped. The direct map is constant.
unsafe impl<M: Machine> FrameSupply for PageTables<M> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        self.machine.take_frames(frames, M::Context::default()).map_err(no_frames)
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.machine.take_run(count, align, M::Context::default()).ok_or(out_of_memory("frames"))
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        // SAFETY: the machine asks that the frames were taken and nothing uses them: so does this
        // function.
        unsafe { self.machine.give_frames(frames) };
    }

    #[inline]
    fn origin(&self, frame: Frame) -> Origin {
        self.machine.origin(frame)
    }

    fn are_taken(&self, first: Frame, count: u64) -> bool {
        self.machine.are_taken(first, count)
    }
}

// SAFETY: as for `FrameSupply`.
unsafe impl<M: Machine> MapFrames for PageTables<M> {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let bits = self.shows(frames.first(), protection);
        match self.reach(range)? {
            Some(run) => run.put::<8>(frames, bits),
            None => self.put(range, frames, bits),
        }
        self.machine.published(&[range]);
        Ok(())
    }

    unsafe fn map_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let first = runs.first().map(|run| run.first);
        self.put_runs(range, runs, self.shows(first.as_ref(), protection))?;
        self.machine.published(&[range]);
        Ok(())
    }

    fn runs_of(&self, frames: &[Frame]) -> Option<Vec<FrameRun>> {
        runs_of(frames)
    }

    fn order_of(&self, runs: &[FrameRun]) -> u32 {
        let orders = [FormatOf::<M>::TABLE_SHIFT, FormatOf::<M>::GROUP_ORDER];
        orders.into_iter().find(|&order| order > 0 && fills(runs, order)).unwrap_or(0)
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        self.clear_whole(range);
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        let (entry, inside) = self.entry(page)?;
        (!entry.has(FormatOf::<M>::OWNED)).then(|| entry.frame().plus(inside))
    }
}

// SAFETY: entries say which accesses are allowed, and every CPU has forgotten the old ones on
// return.
unsafe impl<M: Machine> Protect for PageTables<M> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.visit_pages(range, &mut |slot| {
            let entry = slot.get();
            if entry.is_present() {
                slot.set(entry.protected(protection));
            }
        })?;
        self.shoot(&[range])
    }
}

/// Reads through the direct map, where nothing faults, with interrupts off for a page at a time. So
/// if a page is unmapped meanwhile, the bytes are those of its frame, which has no next owner yet.
impl<M: Machine> ReadNofault for PageTables<M> {
    fn read_nofault(&self, start: usize, to: &mut [u8]) -> usize {
        let mut copied = 0;
        while let [_, ..] = to[copied..] {
            let at = start.wrapping_add(copied);
            let rest = to.len() - copied;
            let part = &mut to[copied..][..rest.min((1 << Self::PAGE_SHIFT) - Self::offset(at))];
            if !pinned::<M, _>(|| self.copy(at, part)) {
                break;
            }
            copied += part.len();
        }
        copied
    }
}

impl<M: Machine> PageTables<M> {
    /// Returns where in its page an address is.
    fn offset(addr: usize) -> usize {
        addr & ((1 << Self::PAGE_SHIFT) - 1)
    }

    /// Copies bytes of one page from `addr` on. Returns false if there are none. Interrupts are
    /// off: the frame does not go back before they are on again.
    fn copy(&self, addr: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.direct(addr) else { return false };
        for (nth, byte) in to.iter_mut().enumerate() {
            // SAFETY: memory of the supply, through the direct map, in the same page as the first
            // byte. Volatile: others may write it meanwhile.
            *byte = unsafe { from.wrapping_add(nth).read_volatile() };
        }
        true
    }

    /// Returns where the byte at `addr` can be read, if it is memory: reading a device would do
    /// something.
    fn direct(&self, addr: usize) -> Option<*const u8> {
        let (entry, inside) = self.entry(addr as u64 >> Self::PAGE_SHIFT)?;
        let frame = entry.frame().plus(inside);
        let readable = frame.0 < self.machine.frames() && self.machine.origin(frame) != Origin::Device;
        readable.then(|| {
            let direct =
                self.machine.direct_map() + (frame.0 << Self::PAGE_SHIFT) as usize + Self::offset(addr);
            core::ptr::with_exposed_provenance(direct)
        })
    }
}

/// Finds the frame behind a page, frames of other owners too.
impl<M: Machine> Translate for PageTables<M> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        let (entry, inside) = self.entry(page)?;
        Some(entry.frame().0 + inside)
    }
}
