//! The platform traits of `vmalloc`, for Linux.

use crate::beacon::Entry;
use crate::drain::DrainThread;
use crate::events;
use crate::frames::supply::Supply;
use crate::frames::table::Table;
use crate::guard::Guarding;
use crate::guard::dumps::Dumps;
use crate::guard::pte::Below;
use crate::means::GuardMeans;
use crate::os::cpu::CpuHint;
use crate::os::fatal::fatal;
use crate::os::futex::FutexLock;
use crate::os::huge_pages::HugePages;
use crate::os::madvise::Advice;
use crate::os::pagemap::{self, Pagemap};
use crate::os::reservation::{Access, Mapping, Reservation};
use crate::populate::Population;
use crate::trap_report::note_free;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use vmalloc::{
    DrainReason, Evict, Extras, Geometry, MemoryCost, PageRange, Platform, PlatformError, PlatformFault,
    Protection, Translate,
};

/// Fewer records are not worth a mapping, and come from the heap: those of a span of 512 MiB.
const LENT_BYTES: usize = 64 << 10;

/// Memory for records of a space, which they change without a lock.
#[derive(Debug)]
pub(crate) enum Records {
    Mapped(Mapping),
    OnHeap(Vec<Line>),
}

/// A line of a cache, where records begin.
#[derive(Debug, Default)]
#[repr(align(128))]
#[expect(dead_code, reason = "the space reads it, by its address")]
pub(crate) struct Line([AtomicU64; 16]);

impl Records {
    /// Returns zeroed memory of so many bytes, if there is some.
    fn new(bytes: usize) -> Option<Self> {
        if bytes < LENT_BYTES {
            let (mut lines, count) = (Vec::new(), bytes.div_ceil(size_of::<Line>()));
            lines.try_reserve_exact(count).ok()?;
            lines.resize_with(count, Line::default);
            return Some(Self::OnHeap(lines));
        }
        let records = Mapping::new(bytes, Access::ReadWrite).ok()?;
        // A look into a core dump needs them.
        let _ = records.advise_whole(Advice::DoDump);
        Some(Self::Mapped(records))
    }

    fn base(&self) -> NonNull<u8> {
        match self {
            Self::Mapped(mapping) => mapping.base().cast(),
            Self::OnHeap(lines) => NonNull::from(&lines[..]).cast(),
        }
    }
}

/// Anonymous memory of this program, in one reserved span of addresses.
///
/// Made by [`Linux::reserve`]. Dropping it gives the span back.
#[derive(Debug)]
pub struct Linux {
    /// First: no hook around forks touches the span once it is given back.
    pub(crate) guarding: Guarding,
    /// Where the guards do not say themselves what is in core dumps.
    pub(crate) dumps: Option<Dumps>,
    pub(crate) memory: Reservation,
    /// The bytes of addresses that were asked for.
    pub(crate) asked: usize,
    pub(crate) table: Table,
    pub(crate) supply: Option<Supply>,
    pub(crate) huge: HugePages,
    pub(crate) population: Option<Box<Population>>,
    pub(crate) pagemap: Pagemap,
    pub(crate) cpu: CpuHint,
    pub(crate) cpus: usize,
    pub(crate) drain_thread: DrainThread,
    pub(crate) beacon: Entry,
    /// The first leaves of the space.
    pub(crate) records: OnceLock<Records>,
}

impl Linux {
    /// Returns how many bytes of addresses are reserved: as many as were asked for, or as the
    /// machine had.
    #[must_use]
    pub fn reserved_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Returns how many bytes of addresses were asked for at most: by
    /// [`max_bytes`](crate::LinuxOptions::max_bytes), or by default. There are fewer where the
    /// system has refused as many.
    #[must_use]
    pub fn asked_bytes(&self) -> usize {
        self.asked
    }

    /// Returns the kind of guards in use.
    #[must_use]
    pub fn guard_means(&self) -> GuardMeans {
        self.guarding.kind()
    }

    /// Returns whether one call purges many ranges (`process_madvise(PIDFD_SELF)`), or
    /// each takes one of its own.
    #[must_use]
    pub fn purges_in_batches(&self) -> bool {
        self.memory.takes_batches()
    }

    /// Makes pages accessible that are plain, or were left special by a failure.
    fn map_plain(&self, range: PageRange) -> Result<(), PlatformError> {
        events::growth(range, self.memory.page_shift());
        self.restore(range)?;
        self.admit_to_dumps(range);
        let cpu = self.cpu();
        if self.guarding.map(&self.memory, range, cpu)? == Below::Tables {
            self.huge.admit(&self.memory, range);
        }
        if let Some(population) = &self.population {
            population.admit(&self.memory, range, cpu);
        }
        Ok(())
    }

    /// Fills a range with zeros.
    ///
    /// # Safety
    /// The caller owns it, and it is mapped readable and writable.
    pub(crate) unsafe fn clear(&self, range: PageRange) {
        let shift = self.memory.page_shift();
        let start = core::ptr::with_exposed_provenance_mut::<u8>((range.start() << shift) as usize);
        // SAFETY: the caller owns the range and it is mapped, so its bytes may be written. The
        // reservation has exposed the span's provenance.
        unsafe { core::ptr::write_bytes(start, 0, (range.len() << shift) as usize) };
    }

    /// Unmaps plain pages.
    pub(crate) fn unmap_plain(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.guarding.unmap(&self.memory, ranges)
    }

    /// Checks that `range` is inside the span: M2 from here on.
    pub(crate) fn check(&self, range: PageRange) -> Result<(), PlatformError> {
        if self.memory.span().covers(&range) {
            return Ok(());
        }
        let code = Errno::INVAL.raw_os_error();
        Err(PlatformError { call: "a range outside the span", fault: PlatformFault::Other, code })
    }
}

// SAFETY:
// - The span is a mapping of our own (M1), constant.
// - Mapped ranges are accessible: F1 and F2 of `guard::chunks` for marks, mprotect(2) on the whole
//   range for the second kind, `Userfault::map` for the third. Their pages are private and fresh or
//   dropped before, so they read as zero, but for those of a stash, where the geometry says no.
// - When madvise(2) has returned, the kernel has flushed all CPUs: `unmap` already keeps the
//   promise of `flush`.
// - `FutexLock` excludes.
unsafe impl Platform for Linux {
    type RawLock = FutexLock;
    type PurgeLock = FutexLock;
    type Context = ();

    // On other machines Linux tells the size of pages only when it runs. This one has no other page
    // size: the architecture says it.
    #[cfg(all(target_arch = "x86_64", not(feature = "set-page-size")))]
    const PAGE_SHIFT: Option<u32> = Some(12);

    fn geometry(&self) -> Geometry {
        Geometry::new(self.memory.span(), self.memory.page_shift(), self.cpus)
            .huge_order(self.huge.order(self.memory.page_shift()))
            // A page that is new takes a page fault.
            .memory_cost(MemoryCost::Dear)
            // 1,000 live areas of 1…64 pages with a budget of half their memory take 1.03 page
            // faults a replacement with exact sizes and 0.003 with a quarter of slack, and an
            // eighth less time than with an eighth (`buffers`).
            .max_slack_percent(25)
            .remaps_atomically(true)
            .maps_zeroed(self.guarding.maps_zeroed())
            .linear_map(self.supply.as_ref().map(Supply::linear))
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    #[inline]
    fn cpu(&self) -> usize {
        let cpu = self.cpu.get();
        // Numbers of CPUs may have gaps, and numbers of threads go on for ever.
        if cpu < self.cpus { cpu } else { cpu % self.cpus }
    }

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        self.check(range)?;
        let access = protection.try_into()?;
        self.map_plain(range)?;
        self.protect_new(range, access)
    }

    unsafe fn map_huge(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        self.check(range)?;
        let access = protection.try_into()?;
        self.map_plain(range)?;
        self.huge.collapse(&self.memory, range);
        self.protect_new(range, access)
    }

    /// Unmaps, and also flushes: see [`flush`](Self::flush). With more than one range, pages are
    /// first dropped and then guarded. In between a use-after-free reads zeros instead of trapping.
    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().try_for_each(|range| self.check(*range))?;
        events::purge(ranges, self.memory.page_shift());
        // All are tried, even after a failure: restored ranges that merge make room for those that
        // split.
        ranges.iter().map(|range| self.restore(*range)).fold(Ok(()), Result::and)?;
        self.unmap_plain(ranges)
    }

    /// Does nothing: the calls that `unmap` makes return only after the kernel has interrupted
    /// every CPU that runs this program and may hold a translation, and has taken the pages back.
    unsafe fn flush(&self, _ranges: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        if let Guarding::Userfault(userfault) = &self.guarding {
            return self.zero_registered(userfault, range);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.clear(range) };
    }

    /// Wakes the drain thread, and creates it the first time. It drains only spaces of
    /// [`open`](crate::open()), and only if their [`LinuxOptions`](crate::LinuxOptions) allow it.
    fn drain_later(&self, due: DrainReason) -> bool {
        self.drain_thread.request(due)
    }

    /// Wakes the drain thread if it is there: a signal handler may call this. To have the thread
    /// before the first signal comes, call [`drain_later`](Self::drain_later) once.
    fn wake_drain(&self) -> bool {
        self.drain_thread.wake()
    }

    fn entropy(&self) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(read) if read == bytes.len() => u64::from_ne_bytes(bytes),
            // A sandbox without the call: the standard library finds its keys elsewhere.
            _ => RandomState::new().hash_one(self.memory.span().start()),
        }
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        fatal(damage)
    }
}

// SAFETY:
// - Records are lent once, and are a mapping of their own.
// - `Guarding::unmap_now` returns when every CPU traps: U1 of `guard::userfault`, or as `unmap`.
// - A stash is of pages that were unmapped; the rest asks and advises the kernel.
unsafe impl Extras for Linux {
    fn lend_records(&self, bytes: usize) -> Option<NonNull<u8>> {
        // They are lent once.
        self.records.set(Records::new(bytes)?).ok()?;
        self.records.get().map(Records::base)
    }

    /// Unmaps by one call of the kernel for plain pages, which returns when every CPU traps.
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        self.check(range)?;
        let shift = self.memory.page_shift();
        note_free((range.start() << shift) as usize, (range.len() << shift) as usize, tag);
        self.restore(range)?;
        self.guarding.unmap_now(&self.memory, range, self.cpu())
    }

    fn evict_memory(&self, part: Evict) -> bool {
        self.guarding.evict(part)
    }

    unsafe fn mark_altered(&self, range: PageRange) -> Result<(), PlatformError> {
        self.check(range)?;
        self.mark_special(range)
    }

    unsafe fn resident(&self, range: PageRange) -> u64 {
        let (shift, mut pages) = (self.memory.page_shift(), 0);
        let scanned = self.pagemap.written(self.memory.run(range), |run| pages += run.end - run.start);
        if scanned.is_ok() { pages >> shift } else { range.len() }
    }

    unsafe fn make_huge(&self, range: PageRange) {
        self.huge.collapse_used(&self.memory, range);
    }
}

impl Translate for Linux {
    fn physical_page(&self, page: u64) -> Option<u64> {
        pagemap::frame(page)
    }
}
