//! A platform whose span is plain memory, which it touches as a machine does: without a lock and
//! without an atomic.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{
    DirectMemory, DrainReason, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform,
    PlatformError, PlatformFault, Protection, Relocate,
};

/// As small as pages may be: a test under Miri writes every byte by itself.
pub(crate) const PAGE_SHIFT: u32 = 6;
pub(crate) const PAGE: usize = 1 << PAGE_SHIFT;
pub(crate) const CPUS: usize = 2;

/// The pages that the machine lends.
const PAGES: u64 = if cfg!(miri) { 512 } else { 2048 };

/// The tests name their frames; the machine has none to give.
const NO_SUPPLY: PlatformError =
    PlatformError { call: "take_frames", fault: PlatformFault::Unsupported, code: 0 };

/// The value of all bytes of an unmapped page.
const POISON: u8 = 0xdb;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Puts the calling thread on a CPU.
pub(crate) fn run_on(cpu: usize) {
    CPU.set(cpu);
}

/// A lock that yields while it waits.
pub(crate) struct YieldLock(AtomicBool);

// SAFETY: one thread wins the exchange, and only the holder stores `false`; Acquire and Release
// order what the lock protects.
unsafe impl lock_api::RawMutex for YieldLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            std::thread::yield_now();
        }
    }
    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A machine of plain memory. Its page table, too, is plain memory: an entry for each page.
///
/// No method synchronizes the threads that call it. If the space hands a page from one thread to
/// another without an order between the two, Miri and the thread sanitizer see a data race here.
pub(crate) struct Plain {
    memory: NonNull<u8>,
    layout: Layout,
    span: PageRange,
    table: Box<[UnsafeCell<Entry>]>,
    /// True if a new mapping takes the place of an old one.
    replaces: bool,
}

/// The memory behind a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Nothing,
    Memory,
    Frame(Frame),
}

// SAFETY: the memory and the table belong to this machine alone. Each call touches the pages that
// its caller owns exclusively, as the caller promises.
unsafe impl Send for Plain {}
// SAFETY: as for `Send`.
unsafe impl Sync for Plain {}

impl Plain {
    pub(crate) fn new(replaces: bool) -> Self {
        let bytes = (PAGES as usize) << PAGE_SHIFT;
        // As aligned as the memory is large, so that every run places areas alike.
        let layout = Layout::from_size_align(bytes, bytes).expect("a power of two");
        // SAFETY: the layout has a size.
        let memory =
            NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let first = memory.as_ptr().expose_provenance() as u64 >> PAGE_SHIFT;
        Self {
            memory,
            layout,
            span: PageRange::from_len(first, PAGES).expect("not empty"),
            table: (0..PAGES).map(|_| UnsafeCell::new(Entry::Nothing)).collect(),
            replaces,
        }
    }

    fn cell(&self, page: u64) -> &UnsafeCell<Entry> {
        &self.table[(page - self.span.start()) as usize]
    }

    /// Reads the frame that the caller's page leads to.
    pub(crate) fn read(&self, addr: usize) -> Option<Frame> {
        self.frame_at((addr >> PAGE_SHIFT) as u64)
    }

    /// Puts an entry behind each page of the caller's range, and bytes into its memory.
    fn set(&self, range: PageRange, byte: u8, entry: impl Fn(u64) -> Entry) {
        for page in range.start()..range.end() {
            // SAFETY: the caller owns the range.
            unsafe { *self.cell(page).get() = entry(page) };
        }
        let offset = ((range.start() - self.span.start()) as usize) << PAGE_SHIFT;
        // SAFETY: the range is inside the span, which is as large as the memory, and the caller's.
        unsafe { self.memory.add(offset).write_bytes(byte, (range.len() as usize) << PAGE_SHIFT) };
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and is given back once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

// SAFETY: the span is this machine's alone and constant. A mapped page leads to memory that nothing
// else has. No CPU caches a translation. The lock excludes.
unsafe impl Platform for Plain {
    type RawLock = YieldLock;
    type PurgeLock = YieldLock;
    type Context = ();

    fn geometry(&self) -> Geometry {
        Geometry::new(self.span, PAGE_SHIFT, CPUS).remaps_atomically(self.replaces)
    }

    fn cpu(&self) -> usize {
        CPU.get()
    }

    unsafe fn map(&self, range: PageRange, _: Protection, _: ()) -> Result<(), PlatformError> {
        self.set(range, 0, |page| {
            // SAFETY: the caller owns the range.
            let before = unsafe { *self.cell(page).get() };
            assert_eq!(before, Entry::Nothing, "page {page:#x} is mapped");
            Entry::Memory
        });
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().for_each(|&range| self.set(range, POISON, |_| Entry::Nothing));
        Ok(())
    }

    unsafe fn flush(&self, _: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        self.set(range, 0, |_| Entry::Memory);
    }

    fn drain_later(&self, _: DrainReason) -> bool {
        false
    }

    fn entropy(&self) -> u64 {
        1
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("fatal: {damage}")
    }
}

// SAFETY: the span is memory of this program at its own addresses, its provenance is exposed, and
// null is not among them.
unsafe impl DirectMemory for Plain {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl Relocate for Plain {}

// SAFETY: the supply is only looked at. A page leads to the frame that its entry names until it is
// unmapped or mapped again. There is no linear map.
unsafe impl FrameSupply for Plain {
    fn take_frames(&self, _: &mut [Frame]) -> Result<(), PlatformError> {
        Err(NO_SUPPLY)
    }

    fn take_run(&self, _: u64, _: u64) -> Result<Frame, PlatformError> {
        Err(NO_SUPPLY)
    }

    unsafe fn give_frames(&self, _: &[Frame]) {}

    fn origin(&self, _: Frame) -> Origin {
        Origin::Supply
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl MapFrames for Plain {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        _: Protection,
    ) -> Result<(), PlatformError> {
        self.set(range, 0, |page| Entry::Frame(frames[(page - range.start()) as usize]));
        Ok(())
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        // SAFETY: the caller owns the page.
        match unsafe { *self.cell(page).get() } {
            Entry::Frame(frame) => Some(frame),
            Entry::Nothing | Entry::Memory => None,
        }
    }
}
