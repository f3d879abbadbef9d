//! The platform of the lab and its benches: real locks under which no memory is, so that what is
//! left is the address part.

use crate::{cpu, hooks};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use lock_api::RawMutex;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::OnceLock;
use vmalloc::{DrainReason, Extras, Geometry, PageRange, Platform, PlatformError, Protection};

/// log2 of the bytes of a page, wherever the lab has to turn pages into bytes.
pub const PAGE_SHIFT: u32 = 12;

/// Names the CPU that a thread runs on.
pub trait CpuHint: Sync {
    /// The CPU that runs this, below [`cpus`](Self::cpus).
    fn cpu(&self) -> usize;
    /// How many there are. Constant.
    fn cpus(&self) -> usize;
}

/// Always the first of two, so that instruction counts repeat exactly.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstCpu;

impl CpuHint for FirstCpu {
    #[inline]
    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        2
    }
}

/// The CPU that [`cpu`] tells, of so many: the real one, or the one that is played.
#[derive(Clone, Copy, Debug)]
pub struct Cpus(pub usize);

impl Default for Cpus {
    fn default() -> Self {
        Self(cpu::count())
    }
}

impl CpuHint for Cpus {
    #[inline]
    fn cpu(&self) -> usize {
        cpu::current(self.0)
    }

    fn cpus(&self) -> usize {
        self.0
    }
}

/// Runs the drains that a space asks for.
pub trait Drains: Sync {
    /// Takes a request for a drain: [`Platform::drain_later`].
    fn drain_later(&self, due: DrainReason) -> bool;
}

/// The callers themselves, when much is lazy.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByCallers;

impl Drains for ByCallers {
    fn drain_later(&self, _due: DrainReason) -> bool {
        false
    }
}

/// Stands for the page tables of a platform.
pub trait Pages: Sync {
    /// Says what new memory costs here.
    fn priced(&self, geometry: Geometry) -> Geometry;
    /// Sees what [`Platform::map`] maps.
    fn map(&self, range: PageRange);
    /// Sees what [`Platform::unmap`] unmaps.
    fn unmap(&self, ranges: &[PageRange]);
}

/// No page tables: mapping is free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmapped;

impl Pages for Unmapped {
    fn priced(&self, geometry: Geometry) -> Geometry {
        geometry
    }

    #[inline]
    fn map(&self, _range: PageRange) {}

    #[inline]
    fn unmap(&self, _ranges: &[PageRange]) {}
}

/// Zeroed memory from the heap. The system puts no memory behind a large allocation before it is
/// touched, unless an alignment is asked for.
#[derive(Debug)]
struct Records {
    start: NonNull<u8>,
    layout: Layout,
}

/// [`Extras::lend_records`].
const RECORDS_ALIGN: usize = 64;

impl Records {
    fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes + RECORDS_ALIGN, align_of::<usize>()).ok()?;
        // SAFETY: the layout has bytes.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    fn aligned(&self) -> NonNull<u8> {
        // SAFETY: there are as many bytes more.
        unsafe { self.start.add(self.start.align_offset(RECORDS_ALIGN)) }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the platform does not live any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: plain memory, which the space alone uses that it is lent to.
unsafe impl Send for Records {}
// SAFETY: as above.
unsafe impl Sync for Records {}

/// A platform with locks of the type `L`, and `P` where a purge may sleep, and no memory.
#[derive(Debug)]
pub struct NullPlatform<L, C = FirstCpu, D = ByCallers, T = Unmapped, P = L> {
    span: PageRange,
    cpu: C,
    drains: D,
    pages: T,
    records: OnceLock<Records>,
    locks: PhantomData<fn() -> (L, P)>,
}

impl<L, C, D, P> NullPlatform<L, C, D, Unmapped, P> {
    /// One whose span, CPUs and drains are these.
    pub const fn new(span: PageRange, cpu: C, drains: D) -> Self {
        Self::with_pages(span, cpu, drains, Unmapped)
    }
}

impl<L, C, D, T, P> NullPlatform<L, C, D, T, P> {
    /// One whose span, CPUs, drains and page tables are these.
    pub const fn with_pages(span: PageRange, cpu: C, drains: D, pages: T) -> Self {
        Self { span, cpu, drains, pages, records: OnceLock::new(), locks: PhantomData }
    }

    /// Returns its page tables.
    pub const fn pages(&self) -> &T {
        &self.pages
    }
}

// SAFETY: the span is constant and nothing else uses it, for nothing is ever mapped there; no byte
// of it is promised to be memory (`DirectMemory` is not implemented); the locks exclude, as their
// own trait promises.
unsafe impl<L: RawMutex + Send + Sync + 'static, C: CpuHint, D: Drains, T: Pages, P: RawMutex> Platform
    for NullPlatform<L, C, D, T, P>
{
    type RawLock = L;
    type PurgeLock = P;
    type Context = ();

    const PAGE_SHIFT: Option<u32> = Some(PAGE_SHIFT);

    fn geometry(&self) -> Geometry {
        self.pages.priced(Geometry::new(self.span, PAGE_SHIFT, self.cpu.cpus()))
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    #[inline]
    fn cpu(&self) -> usize {
        self.cpu.cpu()
    }

    unsafe fn map(&self, range: PageRange, _protection: Protection, _: ()) -> Result<(), PlatformError> {
        self.pages.map(range);
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.pages.unmap(ranges);
        Ok(())
    }

    unsafe fn flush(&self, _ranges: &[PageRange]) -> Result<(), PlatformError> {
        hooks::flush();
        Ok(())
    }

    unsafe fn zero(&self, _range: PageRange) {}

    fn drain_later(&self, due: DrainReason) -> bool {
        self.drains.drain_later(due)
    }

    /// Constant, so that instruction counts repeat exactly.
    fn entropy(&self) -> u64 {
        0x5eed
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

// SAFETY: records are lent once, and live as long as the platform.
unsafe impl<L, C, D, T, P> Extras for NullPlatform<L, C, D, T, P> {
    fn lend_records(&self, bytes: usize) -> Option<NonNull<u8>> {
        let records = Records::new(bytes)?;
        let lent = records.aligned();
        // They are lent once.
        self.records.set(records).ok()?;
        Some(lent)
    }
}
