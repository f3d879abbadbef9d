//! A vmalloc for a machine that does not exist: the steps of `docs/porting.md`, in code that runs.
//!
//! The machine has 16 MiB of memory for areas, two CPUs, and a page table of one level. Each CPU
//! has a TLB that keeps its translations until it is told to forget them. The table says which
//! pages may be used. The memory behind a page is always the same, so that the example can run as a
//! program.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use vmalloc::{
    AreaMap, DirectMemory, DrainReason, Geometry, PageRange, Platform, PlatformError, PlatformFault,
    Protection, Relocate, Space, SpaceOptions,
};

pub(crate) const PAGE_SHIFT: u32 = 12;
pub(crate) const PAGES: u64 = 4096;
const CPUS: usize = 2;

/// Nothing is behind the page.
const EMPTY: u8 = 0;
/// It leads to a frame.
const PRESENT: u8 = 1;
/// It leads nowhere, but its frame may still be cached by a TLB: it goes back when they are
/// flushed.
const UNMAPPED: u8 = 2;

// Step 1: a lock. A kernel has one, or takes that of a crate that implements `lock_api::RawMutex`.
// This one spins.
pub(crate) struct SpinLock(AtomicBool);

// SAFETY: one CPU wins the exchange, and only the holder stores `false`; Acquire and Release order
// what it protects.
unsafe impl lock_api::RawMutex for SpinLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        // A kernel turns interrupts off before it tries, and on again while it waits.
        while !self.try_lock() {
            std::hint::spin_loop();
        }
    }
    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

// Step 2: the machine, as a kernel knows it.
pub(crate) struct Machine {
    /// Where its memory for areas begins.
    first: u64,
    /// The page table: EMPTY, PRESENT or UNMAPPED.
    table: Vec<AtomicU8>,
    /// The translations that each CPU's TLB still holds.
    cached: [Mutex<Vec<bool>>; CPUS],
    /// Frames in the supply.
    frames: AtomicU64,
    /// Set by frees, for a worker that drains.
    drain_wanted: AtomicBool,
    shootdowns: AtomicUsize,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let memory = std::ptr::with_exposed_provenance_mut((self.first << PAGE_SHIFT) as usize);
        // SAFETY: `boot` allocated it, and no area outlives the machine.
        unsafe { dealloc(memory, Self::layout()) };
    }
}

impl Machine {
    fn layout() -> Layout {
        Layout::from_size_align((PAGES << PAGE_SHIFT) as usize, 1 << PAGE_SHIFT).expect("constants")
    }

    pub(crate) fn boot(frames: u64) -> Self {
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(Self::layout()) };
        assert!(!memory.is_null(), "no memory to pretend with");
        Self {
            first: memory.expose_provenance() as u64 >> PAGE_SHIFT,
            table: (0..PAGES).map(|_| AtomicU8::new(EMPTY)).collect(),
            cached: std::array::from_fn(|_| Mutex::new(vec![false; PAGES as usize])),
            frames: AtomicU64::new(frames),
            drain_wanted: AtomicBool::new(false),
            shootdowns: AtomicUsize::new(0),
        }
    }

    fn entries(&self, range: PageRange) -> std::ops::Range<usize> {
        (range.start() - self.first) as usize..(range.end() - self.first) as usize
    }

    /// Returns whether a load on `cpu` succeeds: by a cached translation, or by the table's, which
    /// is cached then.
    pub(crate) fn can_touch(&self, cpu: usize, addr: usize) -> bool {
        let page = ((addr as u64 >> PAGE_SHIFT) - self.first) as usize;
        let mut cached = self.cached[cpu].lock().expect("no panic");
        cached[page] |= self.table[page].load(Ordering::SeqCst) == PRESENT;
        cached[page]
    }
}

// Step 3: the platform. What each method promises is said at the trait.
//
// SAFETY: the span is this machine's alone and constant. A mapped page leads to memory that nothing
// else has; after `unmap` and `flush` no CPU translates it. The locks exclude.
unsafe impl Platform for Machine {
    type RawLock = SpinLock;
    type PurgeLock = SpinLock;
    // What a caller tells `map` about one allocation: here nothing.
    type Context = ();

    fn geometry(&self) -> Geometry {
        Geometry::new(PageRange::from_len(self.first, PAGES).expect("not empty"), PAGE_SHIFT, CPUS)
    }

    fn cpu(&self) -> usize {
        0
    }

    unsafe fn map(&self, range: PageRange, _protection: Protection, _: ()) -> Result<(), PlatformError> {
        // All or nothing: frames first, then entries.
        let taken = self
            .frames
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(range.len()));
        if taken.is_err() {
            return Err(PlatformError { call: "frames", fault: PlatformFault::OutOfMemory, code: 0 });
        }
        // SAFETY: the caller owns the range, and its memory is this machine's. New pages read as
        // zero.
        unsafe { self.zero(range) };
        self.entries(range).for_each(|page| self.table[page].store(PRESENT, Ordering::SeqCst));
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for page in ranges.iter().flat_map(|&range| self.entries(range)) {
            // Guard pages are among them, which were never mapped, and pages that were unmapped
            // before.
            let _ = self.table[page].compare_exchange(PRESENT, UNMAPPED, Ordering::SeqCst, Ordering::SeqCst);
            self.cached[self.cpu()].lock().expect("no panic")[page] = false;
        }
        Ok(())
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // Every CPU forgets: in a kernel an interrupt to each, and a wait until all have answered.
        self.shootdowns.fetch_add(1, Ordering::SeqCst);
        for cached in &self.cached {
            let mut cached = cached.lock().expect("no panic");
            ranges.iter().flat_map(|&range| self.entries(range)).for_each(|page| cached[page] = false);
        }
        // Only now the frames may be used for something else. Guard pages never had one.
        for page in ranges.iter().flat_map(|&range| self.entries(range)) {
            let had = self.table[page].compare_exchange(UNMAPPED, EMPTY, Ordering::SeqCst, Ordering::SeqCst);
            self.frames.fetch_add(u64::from(had.is_ok()), Ordering::SeqCst);
        }
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        let start = std::ptr::with_exposed_provenance_mut::<u8>((range.start() << PAGE_SHIFT) as usize);
        // SAFETY: the caller's range, which is memory of this machine.
        unsafe { start.write_bytes(0, (range.len() << PAGE_SHIFT) as usize) };
    }

    fn drain_later(&self, _due: DrainReason) -> bool {
        // A work queue, a thread, or a flag that the idle loop looks at.
        self.drain_wanted.store(true, Ordering::SeqCst);
        true
    }

    fn entropy(&self) -> u64 {
        0x5eed
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

// SAFETY: a mapped page is memory of this program at its own address, and none is at address 0.
unsafe impl DirectMemory for Machine {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl Relocate for Machine {}

/// Does all that a kernel does from its first instruction to its first area.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before there is a heap: addresses that the firmware and early boot use are taken in memory of
    // one's own.
    let mut early = [0u8; 64 << 10];
    let mut windows = AreaMap::in_buffer(PageRange::new(0x100, 0x10_0000).ok_or("empty")?, &mut early)?;
    windows.alloc_at(PageRange::new(0x800, 0x900).ok_or("empty")?)?;
    assert!(windows.find(0x812).is_some());

    // With a heap: the space. Kernels give memory back when it is freed, so nothing is cached.
    let options = SpaceOptions::default().unmap_on_free();
    let space = Space::new(Machine::boot(PAGES), options)?;

    // And then it is there.
    let addr = space.raw().alloc(&vmalloc::Request::new(5 * 4096))?;
    // SAFETY: 20 KiB that are this function's alone.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(0x5a, 5 * 4096) };
    assert!(space.platform().can_touch(0, addr) && space.platform().can_touch(1, addr));

    // Freed: unmapped and flushed by the next purge, not before. Until then the other CPU may still
    // see it.
    // SAFETY: nothing uses it any more.
    unsafe { space.raw().free(addr) }?;
    assert!(space.platform().can_touch(1, addr));
    space.purge()?;
    assert!(!space.platform().can_touch(1, addr));
    assert_eq!(space.platform().shootdowns.load(Ordering::SeqCst), 1);

    // More than there is: an error that says so, and nothing is lost.
    let error = space
        .raw()
        .alloc(&vmalloc::Request::new((PAGES as usize + 1) << PAGE_SHIFT))
        .expect_err("it has no such range");
    println!("as it should be: {error}");
    space.verify()?;
    println!(
        "vmalloc() returned {addr:#x}; {} frames are in the supply again",
        space.platform().frames.load(Ordering::SeqCst)
    );
    assert_eq!(space.platform().frames.load(Ordering::SeqCst), PAGES);
    Ok(())
}
