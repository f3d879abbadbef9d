//! The platform: the requests of the allocator, in terms of tables and shootdowns.
//!
//! ```text
//!   map       tables ──► frames into entries, not present ──► present        (a refusal in between gives all back: no CPU saw them)
//!   unmap     present ──► stale, with its frame; this CPU forgets
//!   flush     shootdown ──► stale entries ──► none, their frames to the supply
//! ```

use crate::entry::{BATCH, Bits, Entry, PAGE_SHIFT, TABLE_SHIFT, allows, out_of_memory};
use crate::lock::{IrqLock, OpenLock};
use crate::machine::{MAX_CPUS, Machine, pinned};
use crate::run_search::{fills, runs_of};
use crate::shootdown::{Lost, Shootdown};
use crate::tables::{NoTable, Tables};
use alloc::vec::Vec;
use core::fmt;
use vmalloc::{
    DirectMemory, DrainReason, Frame, FrameRun, FrameSupply, Geometry, MapFrames, Origin, PageRange,
    Platform, PlatformError, PlatformFault, Protect, Protection, ReadNofault, Relocate, Translate,
};

/// Pages of this CPU that are forgotten one by one; see [`shootdown`](crate::shootdown).
const FEW: u64 = 33;
/// Bytes of a page.
const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Bits of an address that page tables translate: 47 on either half.
const HALF_SHIFT: u32 = 47 - PAGE_SHIFT;

/// An error of [`X86::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanError {
    /// Some of its addresses are not canonical: four levels translate 47 bits on either half of the
    /// address space.
    NotCanonical,
    /// The machine has more CPUs than [`MAX_CPUS`].
    TooManyCpus,
    /// No frames for the tables of the third level, of which there is one for each 512 GiB.
    NoTables,
    /// No memory for what each CPU acknowledges.
    NoMemory,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotCanonical => "the span has addresses that four levels of tables do not translate",
            Self::TooManyCpus => "more CPUs than can be shot down",
            Self::NoTables => "out of frames for page tables",
            Self::NoMemory => "out of memory for the words of CPUs",
        })
    }
}

impl core::error::Error for SpanError {}

/// A span of addresses on bare x86-64.
pub struct X86<M> {
    pub(crate) machine: M,
    span: PageRange,
    shootdown: Shootdown,
}

impl<M> fmt::Debug for X86<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("X86").field("span", &self.span).finish_non_exhaustive()
    }
}

impl<M: Machine> X86<M> {
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
        let shootdown = Shootdown::new(machine.cpus()).ok_or(SpanError::NoMemory)?;
        Ok(Self { machine, span, shootdown })
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

    /// Makes every CPU forget `ranges`.
    pub(crate) fn shoot(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
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
}

fn addr(page: u64) -> usize {
    (page << PAGE_SHIFT) as usize
}

// SAFETY: the span is the one that the caller of `new` promised. Pages are present from `map` to
// `unmap`, and lead to frames that have no other user. Frames go back after every CPU has
// acknowledged. The geometry says that new pages are not zeroed. The locks exclude.
unsafe impl<M: Machine> Platform for X86<M> {
    type RawLock = IrqLock<M>;
    type PurgeLock = OpenLock;
    type Context = ();

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

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
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

    unsafe fn map_huge(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
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
        // SAFETY: the range is mapped and writable, and only the caller uses it.
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

// SAFETY: `relocate` moves the entries themselves, so `to` holds the content that `from` held.
unsafe impl<M: Machine> Relocate for X86<M> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.make_tables(to)?;
        self.split_all(from)?;
        // Nothing can fail from here on.
        let mut page = to.start();
        self.visit(from, |slot| {
            let entry = slot.get();
            if entry.has(Bits::PRESENT) {
                self.visit(PageRange::of(page, page + 1), |slot| slot.set(entry));
                slot.set(Entry::NONE);
            }
            page += 1;
        });
        self.forget_here(&[from]);
        Ok(())
    }
}

// SAFETY: the machine hands frames out once. Entries lead where `put` says, until they are
// unmapped. The direct map is constant.
unsafe impl<M: Machine> FrameSupply for X86<M> {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        if self.machine.take_frames(frames) { Ok(()) } else { Err(out_of_memory("frames")) }
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        self.machine.take_run(count, align).ok_or(out_of_memory("frames"))
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

    unsafe fn map_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.put_runs(range, runs, Bits::PRESENT | allows(protection))
    }

    fn runs_of(&self, frames: &[Frame]) -> Option<Vec<FrameRun>> {
        runs_of(frames)
    }

    fn order_of(&self, runs: &[FrameRun]) -> u32 {
        if fills(runs, TABLE_SHIFT) { TABLE_SHIFT } else { 0 }
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        self.clear_whole(range);
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        let (entry, inside) = self.entry(page)?;
        (!entry.has(Bits::OWNED)).then(|| entry.frame().plus(inside))
    }
}

// SAFETY: entries say which accesses are allowed, and every CPU has forgotten the old ones on
// return.
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

/// Reads through the direct map, where nothing faults, with interrupts off for a page at a time. So
/// if a page is unmapped meanwhile, the bytes are those of its frame, which has no next owner yet.
impl<M: Machine> ReadNofault for X86<M> {
    fn read_nofault(&self, start: usize, to: &mut [u8]) -> usize {
        let mut copied = 0;
        while let [_, ..] = to[copied..] {
            let at = start.wrapping_add(copied);
            let rest = to.len() - copied;
            let part = &mut to[copied..][..rest.min(PAGE_BYTES - at % PAGE_BYTES)];
            if !pinned::<M, _>(|| self.copy(at, part)) {
                break;
            }
            copied += part.len();
        }
        copied
    }
}

impl<M: Machine> X86<M> {
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
        let (entry, inside) = self.entry(addr as u64 >> PAGE_SHIFT)?;
        let frame = entry.frame().plus(inside);
        let readable = frame.0 < self.machine.frames() && self.machine.origin(frame) != Origin::Device;
        readable.then(|| {
            let direct = self.machine.direct_map() + (frame.0 << PAGE_SHIFT) as usize + addr % PAGE_BYTES;
            core::ptr::with_exposed_provenance(direct)
        })
    }
}

/// Finds the frame behind a page, frames of other owners too.
impl<M: Machine> Translate for X86<M> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        let (entry, inside) = self.entry(page)?;
        Some(entry.frame().0 + inside)
    }
}
