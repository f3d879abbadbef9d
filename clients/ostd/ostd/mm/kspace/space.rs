//! The addresses of kernel virtual areas, handed out by `vmalloc`.
//!
//! The allocator decides where an area lies and when its addresses may be used again. This module
//! is the platform below it: it takes freed areas out of the kernel page table, many at a time, and
//! waits until every CPU has forgotten them. Only then do their frames go back, and their addresses.
//!
//! ```text
//!   KVirtArea made      reserve ──► addresses; the area maps into them by a cursor of its own
//!   KVirtArea dropped   unreserve ──► lazy
//!   purge               unmap: entries ──► `Tables::stale`    flush: one shootdown, then the frames
//! ```

use alloc::vec::Vec;
use core::{
    cell::UnsafeCell,
    fmt,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use lock_api::{GuardNoSend, RawMutex};
use spin::Once;
use vmalloc::{
    FreeError, Geometry, PageRange, Platform, PlatformError, PlatformFault, Protection, Request, Space,
    SpaceOptions,
};

use super::{KERNEL_PAGE_TABLE, KernelPtConfig, VMALLOC_VADDR_RANGE};
use crate::{
    arch::{irq as arch_irq, mm as arch_mm},
    cpu::{AtomicCpuSet, CpuId, CpuSet, num_cpus},
    cpu_local_cell, irq,
    mm::{
        PAGE_SIZE, Vaddr,
        page_table::PageTableFrag,
        tlb::{TlbFlushOp, TlbFlusher},
    },
    sync::{LocalIrqDisabled, SpinLock},
    task::{DisabledPreemptGuard, atomic_mode, disable_preempt},
    util::id_set::Id,
};

/// Entries that this CPU forgets one by one; with more it forgets everything.
const FEW: usize = 32;

static SPACE: Once<Space<Tables>> = Once::new();

/// Areas that were dropped where nothing may be waited for.
static DEFERRED: SpinLock<Vec<Vaddr>, LocalIrqDisabled> = SpinLock::new(Vec::new());

/// Returns the space over [`VMALLOC_VADDR_RANGE`].
pub(super) fn space() -> &'static Space<Tables> {
    SPACE.get().unwrap_or_else(|| {
        // No handler on this CPU may find the space half made.
        let _irq_guard = irq::disable_local();
        let make = || Space::new(Tables::new(), SpaceOptions::default().unmap_on_free());
        SPACE.call_once(|| make().expect("the heap holds the metadata of a space"))
    })
}

/// Allocates `size` bytes of addresses without memory. Returns the first.
///
/// # Panics
///
/// When the addresses or the heap are used up.
pub(super) fn alloc(size: usize) -> Vaddr {
    let request = Request::new(size);
    if atomic_mode::is_atomic() {
        return space().raw().reserve(&request.may_block(false)).unwrap();
    }
    free_deferred();
    space().raw().reserve(&request).unwrap()
}

/// Frees the area that [`alloc`] returned. Its mappings, frames and addresses go back together,
/// after a flush.
///
/// # Safety
///
/// Nothing uses the area any more: its owner calls this, once.
pub(super) unsafe fn free(start: Vaddr) {
    if atomic_mode::is_atomic() {
        return DEFERRED.lock().push(start);
    }
    free_deferred();
    free_now(start);
}

/// Unmaps a part of an area whose addresses stay allocated, if that may wait here. Otherwise the
/// part is unmapped with the whole.
///
/// # Safety
///
/// The caller owns the part, and nothing uses it any more.
pub(super) unsafe fn unmap_part(part: Range<Vaddr>) {
    if !atomic_mode::is_atomic() {
        // An error leaves the part mapped: it goes with the whole.
        // SAFETY: By the caller's promise.
        let _ = unsafe { space().raw().decommit(&[part]) };
    }
}

/// Frees the areas that were dropped where nothing may be waited for.
fn free_deferred() {
    let deferred = core::mem::take(&mut *DEFERRED.lock());
    deferred.into_iter().for_each(free_now);
}

fn free_now(start: Vaddr) {
    // SAFETY: The owner of the area has given it up, by the promise of `free`.
    match unsafe { space().raw().unreserve(start) } {
        Ok(()) => (),
        // The next allocation tries again.
        Err(FreeError::NoMemory { .. }) => DEFERRED.lock().push(start),
        Err(damage) => panic!("a kernel virtual area cannot be freed: {damage}"),
    }
}

/// The kernel page table, as the platform of a space.
pub(super) struct Tables {
    /// Entries that were taken out of the table and may still be in a TLB.
    stale: SpinLock<Vec<Stale>, LocalIrqDisabled>,
}

struct Stale {
    page: u64,
    /// Frames and table nodes that are dropped after the flush.
    _frag: PageTableFrag<KernelPtConfig>,
}

impl Tables {
    fn new() -> Self {
        Self { stale: SpinLock::new(Vec::new()) }
    }

    /// Moves the entries of a range to the stale ones.
    fn take(&self, range: &PageRange) -> Result<(), PlatformError> {
        let bytes = bytes(range);
        let irq_guard = irq::disable_local();
        let page_table = KERNEL_PAGE_TABLE.get().unwrap();
        let mut cursor = page_table.cursor_mut(&irq_guard, &bytes).unwrap();
        let mut taken = 0;
        loop {
            let mut stale = self.stale.lock();
            let room = stale.try_reserve(1);
            room.map_err(|_| refusal("unmap", PlatformFault::OutOfMemory))?;
            // SAFETY: The space frees the range, so nothing uses it any more. What is taken out
            // stays alive until `flush` has made every CPU forget it.
            let Some(frag) = (unsafe { cursor.take_next(bytes.end - cursor.virt_addr()) }) else {
                break;
            };
            let (va, entries) = match &frag {
                PageTableFrag::Mapped { va, .. } => (*va, 1),
                PageTableFrag::StrayPageTable { va, .. } => (*va, FEW + 1),
            };
            stale.push(Stale { page: page(va), _frag: frag });
            taken += entries;
            if taken <= FEW {
                arch_mm::tlb_flush_addr(va);
            }
        }
        if taken > FEW {
            arch_mm::tlb_flush_all_including_global();
        }
        Ok(())
    }

    /// Drops what was stale in `ranges`, which every CPU has forgotten.
    fn release(&self, ranges: &[PageRange]) {
        let mut stale = self.stale.lock();
        if stale.iter().all(|it| is_in(ranges, it.page)) {
            let all = core::mem::take(&mut *stale);
            drop(stale);
            return drop(all);
        }
        stale.retain(|it| !is_in(ranges, it.page));
    }
}

// SAFETY: The span is used by kernel virtual areas alone, and they get their addresses here.
// `unmap` takes entries out of the table, and `flush` returns `Ok` after a shootdown of all CPUs.
// The locks exclude.
unsafe impl Platform for Tables {
    type RawLock = IrqLock;
    type PurgeLock = OpenLock;
    type Context = ();

    const PAGE_SHIFT: Option<u32> = Some(PAGE_SIZE.trailing_zeros());

    fn geometry(&self) -> Geometry {
        let span = PageRange::new(page(VMALLOC_VADDR_RANGE.start), page(VMALLOC_VADDR_RANGE.end));
        Geometry::new(span.unwrap(), PAGE_SIZE.trailing_zeros(), num_cpus()).maps_zeroed(false)
    }

    fn cpu(&self) -> usize {
        CpuId::current_racy().as_usize()
    }

    /// Refuses: an area maps its own frames, by a cursor.
    unsafe fn map(&self, _: PageRange, _: Protection, _: ()) -> Result<(), PlatformError> {
        Err(refusal("map", PlatformFault::Unsupported))
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().try_for_each(|range| self.take(range))
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if !self.stale.lock().iter().any(|it| is_in(ranges, it.page)) {
            // Nothing was mapped there.
            return Ok(());
        }
        if !arch_irq::is_local_enabled() {
            // Two CPUs that wait for each other's answers like this would wait for ever.
            return Err(refusal("flush", PlatformFault::Other));
        }
        let cpus = AtomicCpuSet::new(CpuSet::new_full());
        let mut flusher = TlbFlusher::new(&cpus, disable_preempt());
        for range in ranges {
            flusher.issue_tlb_flush(TlbFlushOp::for_range(bytes(range)));
        }
        flusher.dispatch_tlb_flush();
        flusher.sync_tlb_flush();
        self.release(ranges);
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        let bytes = bytes(&range);
        // SAFETY: By the caller's promise the range is mapped, and the caller's alone.
        unsafe { (bytes.start as *mut u8).write_bytes(0, bytes.len()) };
    }

    fn entropy(&self) -> u64 {
        crate::arch::read_tsc()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("the kernel virtual areas are damaged: {damage}")
    }
}

fn page(va: Vaddr) -> u64 {
    (va / PAGE_SIZE) as u64
}

fn bytes(range: &PageRange) -> Range<Vaddr> {
    range.start() as usize * PAGE_SIZE..range.end() as usize * PAGE_SIZE
}

/// Returns whether a page is in one of `ranges`, which are disjoint and ascending.
fn is_in(ranges: &[PageRange], page: u64) -> bool {
    let behind = ranges.partition_point(|range| range.start() <= page);
    behind > 0 && page < ranges[behind - 1].end()
}

fn refusal(call: &'static str, fault: PlatformFault) -> PlatformError {
    PlatformError { call, fault, code: 0 }
}

cpu_local_cell! {
    /// Locks of the space that this CPU holds.
    static HELD_LOCKS: u32 = 0;
    /// True if IRQs were on when the first of them was taken.
    static WAS_IRQ_ENABLED: bool = false;
}

/// A spin lock that keeps IRQs off. Unlike guards, such locks may be released in any order.
pub(super) struct IrqLock(AtomicBool);

// SAFETY: One CPU wins the exchange, and only the holder undoes it. No handler comes in between on
// the same CPU.
unsafe impl RawMutex for IrqLock {
    #[expect(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        while !self.try_lock() {
            core::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        let was_enabled = arch_irq::is_local_enabled();
        arch_irq::disable_local();
        if take(&self.0) {
            if HELD_LOCKS.load() == 0 {
                WAS_IRQ_ENABLED.store(was_enabled);
            }
            HELD_LOCKS.add_assign(1);
            return true;
        }
        if was_enabled {
            arch_irq::enable_local();
        }
        false
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
        HELD_LOCKS.sub_assign(1);
        if HELD_LOCKS.load() == 0 && WAS_IRQ_ENABLED.load() {
            arch_irq::enable_local();
        }
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A spin lock that leaves IRQs on, so that a CPU that waits for it goes on answering others. Its
/// holder stays on its CPU, and running.
pub(super) struct OpenLock {
    held: AtomicBool,
    guard: UnsafeCell<Option<DisabledPreemptGuard>>,
}

// SAFETY: Only the holder of the lock touches the guard, and it stays on its CPU.
unsafe impl Send for OpenLock {}
// SAFETY: As above.
unsafe impl Sync for OpenLock {}

// SAFETY: One CPU wins the exchange, and only the holder undoes it. Handlers do not take this lock.
unsafe impl RawMutex for OpenLock {
    #[expect(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self { held: AtomicBool::new(false), guard: UnsafeCell::new(None) };

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        while !self.try_lock() {
            core::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        let guard = disable_preempt();
        if !take(&self.held) {
            return false;
        }
        // SAFETY: The lock is held, so no one else touches the guard.
        unsafe { *self.guard.get() = Some(guard) };
        true
    }

    unsafe fn unlock(&self) {
        // SAFETY: As above.
        let guard = unsafe { (*self.guard.get()).take() };
        self.held.store(false, Ordering::Release);
        drop(guard);
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }
}

fn take(held: &AtomicBool) -> bool {
    held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
}
