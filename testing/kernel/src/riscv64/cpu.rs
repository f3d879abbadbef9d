//! Data of each CPU, found through `tp`, which every CPU sets before anything else.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use vmalloc_tables::Interrupts;

/// The most CPUs that are started.
pub(crate) const MAX: usize = 16;

/// Words of one CPU, that only it reads and writes.
#[repr(C, align(64))]
pub(crate) struct Local {
    number: u64,
    /// How often interrupts are off: they are on when it is 0, and only then. A handler counts as
    /// one.
    pub(crate) depth: u64,
    /// Where to go on when the access that is under way faults; 0 when no fault is expected.
    pub(crate) resume: u64,
    /// The last fault that was expected.
    pub(crate) fault_addr: u64,
    pub(crate) fault_error: u64,
}

/// Offsets for assembly.
const DEPTH: usize = offset_of!(Local, depth);
const NUMBER: usize = offset_of!(Local, number);
pub(crate) const RESUME: usize = offset_of!(Local, resume);

struct Locals(UnsafeCell<[Local; MAX]>);

// SAFETY: each CPU uses its own only.
unsafe impl Sync for Locals {}

static LOCALS: Locals = Locals(UnsafeCell::new(
    [const { Local { number: 0, depth: 1, resume: 0, fault_addr: 0, fault_error: 0 } }; MAX],
));

/// Makes this CPU know itself.
///
/// # Safety
/// Interrupts are off, and no other CPU is `number`.
pub(crate) unsafe fn enter(number: usize) {
    // SAFETY: in bounds by the index, and this CPU's alone. Compiled code leaves the register
    // alone.
    unsafe {
        let local = &raw mut (*LOCALS.0.get())[number];
        (*local).number = number as u64;
        asm!("mv tp, {}", in(reg) local);
    }
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn number() -> usize {
    let number: usize;
    // SAFETY: the register leads to this CPU's words.
    unsafe {
        asm!("ld {}, {NUMBER}(tp)", out(reg) number, NUMBER = const NUMBER,
            options(nostack, readonly, preserves_flags));
    }
    number
}

/// This CPU's words.
///
/// # Safety
/// The reference ends before anything else uses them: an expected access, a handler.
pub(crate) unsafe fn local<'a>() -> &'a mut Local {
    // SAFETY: in bounds, and of this CPU; the caller's promise.
    unsafe { &mut (*LOCALS.0.get())[number()] }
}

/// Interrupts of the CPU that runs this.
pub(crate) struct Here;

// SAFETY: the depth counts; at 0 interrupts are on, else off. No thread moves from its CPU.
unsafe impl Interrupts for Here {
    #[inline(always)]
    fn off() {
        // SAFETY: the register leads to this CPU's words.
        unsafe {
            asm!("csrci sstatus, 2", "ld {0}, {DEPTH}(tp)", "addi {0}, {0}, 1", "sd {0}, {DEPTH}(tp)",
                out(reg) _, DEPTH = const DEPTH, options(nostack));
        }
    }

    #[inline(always)]
    fn on() {
        // SAFETY: as above, and it undoes one `off`.
        unsafe {
            asm!("ld {0}, {DEPTH}(tp)", "addi {0}, {0}, -1", "sd {0}, {DEPTH}(tp)", "bnez {0}, 2f",
                "csrsi sstatus, 2", "2:", out(reg) _, DEPTH = const DEPTH, options(nostack));
        }
    }
}

/// Waits until `is_done`, which an interrupt makes true. Interrupts are on.
pub(crate) fn wait_until(is_done: impl Fn() -> bool) {
    loop {
        Here::off();
        if is_done() {
            return Here::on();
        }
        // SAFETY: it goes on when an interrupt is pending, though interrupts are off.
        unsafe { asm!("wfi", options(nomem, nostack)) };
        Here::on();
    }
}
