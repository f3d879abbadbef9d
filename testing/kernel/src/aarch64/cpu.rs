//! Data of each CPU, in registers that every CPU sets before anything else.
//!
//! `TPIDR_EL1` leads to its words, `TPIDRRO_EL0` is its number, and `TPIDR_EL0` counts how often
//! interrupts are off. They are on when it is 0, and only then.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use vmalloc_tables::Interrupts;

/// The most CPUs that are started.
pub(crate) const MAX: usize = 16;

/// Words of one CPU, that only it reads and writes.
#[repr(C, align(64))]
pub(crate) struct Local {
    /// Where to go on when the access that is under way faults; 0 when no fault is expected.
    pub(crate) resume: u64,
    /// The last fault that was expected.
    pub(crate) fault_addr: u64,
    pub(crate) fault_error: u64,
}

/// An offset for assembly.
pub(crate) const RESUME: usize = offset_of!(Local, resume);

struct Locals(UnsafeCell<[Local; MAX]>);

// SAFETY: each CPU uses its own only.
unsafe impl Sync for Locals {}

static LOCALS: Locals =
    Locals(UnsafeCell::new([const { Local { resume: 0, fault_addr: 0, fault_error: 0 } }; MAX]));

/// Makes this CPU know itself.
///
/// # Safety
/// Interrupts are off, and no other CPU is `number`.
pub(crate) unsafe fn enter(number: usize) {
    // SAFETY: in bounds by the index, and this CPU's alone.
    unsafe {
        let local = &raw mut (*LOCALS.0.get())[number];
        asm!("msr tpidr_el1, {}", "msr tpidrro_el0, {}", "msr tpidr_el0, {}", in(reg) local,
            in(reg) number, in(reg) 1u64);
    }
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn number() -> usize {
    let number: usize;
    // SAFETY: it only reads.
    unsafe { asm!("mrs {}, tpidrro_el0", out(reg) number, options(nostack, nomem, preserves_flags)) };
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

// SAFETY: the register counts; at 0 interrupts are on, else off. No thread moves from its CPU.
unsafe impl Interrupts for Here {
    #[inline(always)]
    fn off() {
        // SAFETY: the register is this CPU's.
        unsafe {
            asm!("msr daifset, #2", "mrs {0}, tpidr_el0", "add {0}, {0}, #1", "msr tpidr_el0, {0}", out(reg) _,
                options(nostack));
        }
    }

    #[inline(always)]
    fn on() {
        // SAFETY: as above, and it undoes one `off`.
        unsafe {
            asm!("mrs {0}, tpidr_el0", "sub {0}, {0}, #1", "msr tpidr_el0, {0}", "cbnz {0}, 2f",
                "msr daifclr, #2", "2:", out(reg) _, options(nostack));
        }
    }
}

/// Undoes one `off` in a handler, where interrupts are off until it has returned.
pub(crate) fn leave_handler() {
    // SAFETY: the register is this CPU's.
    unsafe {
        asm!("mrs {0}, tpidr_el0", "sub {0}, {0}, #1", "msr tpidr_el0, {0}", out(reg) _, options(nostack));
    }
}

/// Waits until `is_done`, which another CPU makes true before it sends an event.
pub(crate) fn wait_until(is_done: impl Fn() -> bool) {
    while !is_done() {
        // SAFETY: an event between the question and this ends the wait at once.
        unsafe { asm!("wfe", options(nomem, nostack)) };
    }
}
