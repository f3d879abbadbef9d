//! What the core takes from Linux: a heap, two locks, and the platform.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{self, Display, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::{GuardNoSend, RawMutex};
use vmalloc::{DrainReason, Geometry, PageRange, Platform, PlatformError, PlatformFault, Protection};

// Of `kernel/`. Addresses are numbers of pages.
unsafe extern "C" {
    fn linux_heap_alloc(bytes: usize) -> *mut u8;
    fn linux_heap_free(block: *mut u8);
    safe fn linux_cpu() -> u32;
    safe fn linux_preempt_disable();
    safe fn linux_preempt_enable();
    safe fn linux_relax();
    safe fn linux_yield();
    fn linux_map(start: u64, pages: u64, context: Context) -> i32;
    fn linux_unmap(start: u64, pages: u64);
    fn linux_flush(start: u64, end: u64);
    fn linux_zero(start: u64, pages: u64);
    safe fn linux_drain_later(start: u64) -> bool;
    fn linux_print(text: *const u8, bytes: usize);
    safe fn linux_bug() -> !;
}

struct Heap;

// SAFETY: Linux's heap aligns a block of a power of two to its size.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: it takes any size.
        unsafe { linux_heap_alloc(layout.size().max(layout.align())) }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block is of `linux_heap_alloc`.
        unsafe { linux_heap_free(block) }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;

/// The kernel's log.
struct Log;

impl Write for Log {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the bytes are a text's.
        unsafe { linux_print(text.as_ptr(), text.len()) };
        Ok(())
    }
}

pub(crate) fn say(what: &dyn Display) {
    let _ = writeln!(Log, "{what}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say(info);
    linux_bug()
}

/// A lock. Either its holder is not preempted, and others spin; or it may sleep, as a purge does,
/// and others let threads run.
pub(crate) struct Lock<const SPINS: bool>(AtomicBool);

// SAFETY: one thread at a time finds it free.
unsafe impl<const SPINS: bool> RawMutex for Lock<SPINS> {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            while self.0.load(Ordering::Relaxed) {
                if SPINS { linux_relax() } else { linux_yield() }
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        if SPINS {
            linux_preempt_disable();
        }
        let is_taken = !self.0.swap(true, Ordering::Acquire);
        if SPINS && !is_taken {
            linux_preempt_enable();
        }
        is_taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
        if SPINS {
            linux_preempt_enable();
        }
    }
}

/// How an allocation asks the kernel for pages, as in `kernel/vm.h`. The default waits for none.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Context {
    flags: u32,
    node: i32,
    pub(crate) may_wait: bool,
}

/// The kernel below a space.
pub(crate) struct Linux {
    pub(crate) span: PageRange,
    pub(crate) cpus: usize,
    /// Whether an area gets memory here. Else the module maps there what it likes.
    pub(crate) lends_memory: bool,
}

// SAFETY: the module took the span of Linux for this space alone. It maps pages that it allocates,
// and has every CPU flush before it frees them. Where no memory is lent no area is memory, and the
// module answers for what it maps. The locks exclude.
unsafe impl Platform for Linux {
    type RawLock = Lock<true>;
    type PurgeLock = Lock<false>;
    type Context = Context;
    const PAGE_SHIFT: Option<u32> = Some(12);

    fn geometry(&self) -> Geometry {
        Geometry::new(self.span, 12, self.cpus).maps_zeroed(false)
    }

    fn cpu(&self) -> usize {
        linux_cpu() as usize
    }

    unsafe fn map(&self, range: PageRange, _: Protection, context: Context) -> Result<(), PlatformError> {
        if !self.lends_memory {
            return Ok(());
        }
        // SAFETY: the caller owns the range.
        match unsafe { linux_map(range.start(), range.len(), context) } {
            0 => Ok(()),
            code => Err(PlatformError { call: "map", fault: PlatformFault::OutOfMemory, code }),
        }
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for range in ranges.iter().filter(|_| self.lends_memory) {
            // SAFETY: the caller owns the range, and nothing uses it.
            unsafe { linux_unmap(range.start(), range.len()) };
        }
        Ok(())
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
            // SAFETY: they are ascending, and unmapped.
            unsafe { linux_flush(first.start(), last.end()) };
        }
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        // SAFETY: the caller owns the range, which is mapped.
        unsafe { linux_zero(range.start(), range.len()) };
    }

    fn drain_later(&self, reason: DrainReason) -> bool {
        // Nothing is cached here, so nothing decays by age.
        reason == DrainReason::Threshold && linux_drain_later(self.span.start())
    }

    fn entropy(&self) -> u64 {
        // No place is random here.
        0
    }

    fn fatal(&self, damage: &dyn Display) -> ! {
        panic!("{damage}")
    }
}
