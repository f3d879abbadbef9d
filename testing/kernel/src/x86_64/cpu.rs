//! Data of each CPU, found through GS, whose base every CPU sets before anything else.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use vmalloc_tables::Interrupts;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

/// The most CPUs that are started.
pub(crate) const MAX: usize = 16;

/// Words of one CPU, that only it reads and writes.
#[repr(C, align(64))]
pub(crate) struct Local {
    number: u64,
    /// How often interrupts are off: they are on when it is 0, and only then. An interrupt handler
    /// counts as one.
    depth: u64,
    /// Where to go on when the access that is under way faults, and with which stack; 0 when no
    /// fault is expected.
    pub(crate) resume: u64,
    pub(crate) resume_stack: u64,
    /// The last fault that was expected.
    pub(crate) fault_addr: u64,
    pub(crate) fault_error: u64,
}

/// Offsets for assembly.
pub(crate) const DEPTH: usize = offset_of!(Local, depth);
pub(crate) const RESUME: usize = offset_of!(Local, resume);
pub(crate) const RESUME_STACK: usize = offset_of!(Local, resume_stack);
pub(crate) const NUMBER: usize = offset_of!(Local, number);

struct Locals(UnsafeCell<[Local; MAX]>);

// SAFETY: each CPU uses its own only.
unsafe impl Sync for Locals {}

static LOCALS: Locals = Locals(UnsafeCell::new(
    [const { Local { number: 0, depth: 1, resume: 0, resume_stack: 0, fault_addr: 0, fault_error: 0 } }; MAX],
));

/// Makes this CPU know itself.
///
/// # Safety
/// Interrupts are off, and no other CPU is `number`.
pub(crate) unsafe fn enter(number: usize) {
    // SAFETY: in bounds by the index, and this CPU's alone.
    let local = unsafe { &raw mut (*LOCALS.0.get())[number] };
    // SAFETY: as above.
    unsafe { (*local).number = number as u64 };
    GsBase::write(VirtAddr::from_ptr(local));
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn number() -> usize {
    let number: usize;
    // SAFETY: GS leads to this CPU's words.
    unsafe {
        asm!("mov {}, gs:[{NUMBER}]", out(reg) number, NUMBER = const NUMBER, options(nostack, readonly, preserves_flags));
    };
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
        // SAFETY: GS leads to this CPU's words.
        unsafe { asm!("cli", "inc dword ptr gs:[{DEPTH}]", DEPTH = const DEPTH, options(nostack)) };
    }

    #[inline(always)]
    fn on() {
        // SAFETY: as above, and it undoes one `off`.
        unsafe {
            asm!("dec dword ptr gs:[{DEPTH}]", "jnz 2f", "sti", "2:", DEPTH = const DEPTH, options(nostack));
        };
    }
}

/// Halts until `is_done`, which an interrupt makes true. Interrupts are on.
pub(crate) fn wait_until(is_done: impl Fn() -> bool) {
    loop {
        Here::off();
        if is_done() {
            return Here::on();
        }
        // SAFETY: as `on`, and an interrupt between the last two ends the halt.
        unsafe { asm!("dec dword ptr gs:[{DEPTH}]", "sti", "hlt", DEPTH = const DEPTH, options(nostack)) };
    }
}
