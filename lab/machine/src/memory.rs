//! The memory whose cache lines are modelled: a heap at a fixed address.
//!
//! ```text
//!   BASE                                   ┌─ end
//!    │ line │ line │ line │ 2 lines │ 4 … │ not yet allocated …
//! ```
//!
//! An allocation begins at a line of its own and ends with one, so which fields share a line is a
//! matter of types, not of what was allocated before. What is freed waits for a request of its
//! class. The address is fixed, so results do not depend on the arguments of a program, its
//! environment or its build. Stacks and statics are not modelled: they belong to one thread, or
//! never change.

use crate::lines::{LINE, Line};
use crate::now::now;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull, with_exposed_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where it begins: far from where kernels put programs, libraries and stacks.
const BASE: usize = 0x2000_0000_0000;
/// Where the last may begin. A machine whose threads never ended leaves its memory as it is. The
/// next machine has its own behind it.
const LAST: usize = BASE + 64 * BYTES;
/// The records of a span of 8 TiB take 2 GiB, of which little is touched.
const BYTES: usize = 16 << 30;
/// Classes of 1 to 64 lines, and then powers of two.
const FINE: usize = 64;
const CLASSES: usize = FINE + 64;

thread_local! {
    static HEAP: Heap = const {
        Heap {
            base: Cell::new(LAST),
            end: Cell::new(LAST),
            live: Cell::new(0),
            freed: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            lines: Cell::new(ptr::null_mut()),
        }
    };
}

struct Heap {
    base: Cell<usize>,
    /// Never allocated from here on.
    end: Cell<usize>,
    /// Allocations that were not freed.
    live: Cell<u64>,
    /// Freed allocations, by classes: each begins with the place of the next.
    freed: [Cell<*mut u8>; CLASSES],
    /// One for each line of the memory.
    lines: Cell<*mut Line>,
}

/// Returns the state of the line of an address, unless that is not modelled.
#[inline]
pub(crate) fn line_at(addr: usize) -> Option<NonNull<Line>> {
    HEAP.with(|heap| {
        let at = addr.wrapping_sub(heap.base.get());
        if at >= BYTES {
            return None;
        }
        // SAFETY: there is a state for each line of the memory, if there is memory.
        NonNull::new(heap.lines.get()).map(|lines| unsafe { lines.add(at / LINE) })
    })
}

/// The memory, while a machine lives.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where it is: there is no other as long as this is locked.
    base: MutexGuard<'static, usize>,
    lines: *mut c_void,
}

const LINES_BYTES: usize = BYTES / LINE * size_of::<Line>();

impl Memory {
    /// Maps it, empty and with no line in any cache.
    pub(crate) fn map() -> Self {
        static FREE: Mutex<usize> = Mutex::new(BASE);
        let base = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        assert!(*base < LAST, "too many machines were left behind");
        let start = with_exposed_provenance_mut(*base);
        // SAFETY: a new mapping, which replaces none.
        let mapped = unsafe { mmap_anonymous(start, BYTES, rights, flags | MapFlags::FIXED_NOREPLACE) };
        mapped.expect("addresses for the memory").expose_provenance();
        // SAFETY: a new mapping, wherever there is room.
        let lines = unsafe { mmap_anonymous(ptr::null_mut(), LINES_BYTES, rights, flags) };
        let lines = lines.expect("addresses for the states of lines");
        HEAP.with(|heap| {
            heap.base.set(*base);
            heap.end.set(*base);
            heap.live.set(0);
            heap.freed.iter().for_each(|class| class.set(ptr::null_mut()));
            heap.lines.set(lines.cast());
        });
        Self { base, lines }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let live = HEAP.with(|heap| {
            heap.lines.set(ptr::null_mut());
            heap.live.get()
        });
        if live != 0 {
            // Something in it may still be used.
            *self.base += BYTES;
            assert!(std::thread::panicking(), "{live} allocations outlive their machine");
            return;
        }
        // SAFETY: both were mapped by `map`, and nothing is allocated there any more.
        unsafe {
            let _ = munmap(with_exposed_provenance_mut(*self.base), BYTES);
            let _ = munmap(self.lines, LINES_BYTES);
        }
    }
}

/// Returns the class of a size, and the bytes that one of it takes.
fn class(bytes: usize) -> (usize, usize) {
    let lines = bytes.div_ceil(LINE).max(1);
    if lines <= FINE {
        return (lines - 1, lines * LINE);
    }
    let rounded = lines.next_power_of_two();
    (FINE + rounded.trailing_zeros() as usize, rounded * LINE)
}

impl Heap {
    /// Allocates; the second is true if the bytes are fresh, and so zero.
    fn alloc(&self, layout: Layout) -> (*mut u8, bool) {
        let (class, bytes) = class(layout.size());
        self.live.set(self.live.get() + 1);
        let first = self.freed[class].get();
        if !first.is_null() && first.addr().is_multiple_of(layout.align()) {
            // SAFETY: a freed allocation begins with the place of the next.
            self.freed[class].set(unsafe { first.cast::<*mut u8>().read() });
            return (first, false);
        }
        let start = self.end.get().next_multiple_of(layout.align().max(LINE));
        if start + bytes > self.base.get() + BYTES {
            return (ptr::null_mut(), false);
        }
        self.end.set(start + bytes);
        (with_exposed_provenance_mut(start), true)
    }

    /// # Safety
    /// It was allocated with this layout, and is not used any more.
    unsafe fn free(&self, at: *mut u8, layout: Layout) {
        let (class, _) = class(layout.size());
        self.live.set(self.live.get() - 1);
        // SAFETY: it has a line at least, which nothing else uses.
        unsafe { at.cast::<*mut u8>().write(self.freed[class].replace(at)) };
    }
}

/// The allocator of a program with a machine: what designs allocate is modelled, and the rest comes
/// from the system.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

fn is_modelled(at: *mut u8) -> bool {
    (BASE..LAST).contains(&at.addr())
}

/// A call of the heap takes its time.
fn charge() {
    now(|now| {
        if now.on.get() {
            now.pass(now.costs.get().heap);
        }
    });
}

// SAFETY: allocations of the heap are apart from each other, as large and aligned as was asked for,
// and are used again only after they were freed. All other memory is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !now(|now| now.modelled.get()) {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        }
        charge();
        HEAP.with(|heap| heap.alloc(layout).0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !now(|now| now.modelled.get()) {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        charge();
        let (at, is_zero) = HEAP.with(|heap| heap.alloc(layout));
        if !at.is_null() && !is_zero {
            // SAFETY: it was just allocated.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_modelled(at) {
            // SAFETY: the caller's promise; it is none of the heap's.
            return unsafe { System.dealloc(at, layout) };
        }
        charge();
        // SAFETY: the caller's promise; it is in the heap's memory.
        HEAP.with(|heap| unsafe { heap.free(at, layout) });
    }
}
