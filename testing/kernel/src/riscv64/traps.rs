//! Interrupts and faults: those that are expected, and a dump of all registers for the others.

use super::cpu;
use crate::access::{EXECUTE, REFUSED, WRITE};
use crate::exit::{Status, exit};
use crate::serial::print_in_need;
use crate::{machine, walk};
use alloc::boxed::Box;
use core::arch::asm;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use vmalloc_tables::Protection;

core::arch::global_asm!(include_str!("traps.s"), trap = sym trap);

unsafe extern "C" {
    static trap_entry: [u8; 0];
}

const STACK_BYTES: usize = 16 << 10;

/// Causes that the processor names.
const SOFTWARE_INTERRUPT: u64 = 1 << 63 | 1;
const FETCH: u64 = 12;
const LOAD: u64 = 13;
const STORE: u64 = 15;

/// Makes the next fault's handler fault.
pub(crate) static FAULTS_AGAIN: AtomicBool = AtomicBool::new(false);

/// The state that the entry saved.
#[repr(C)]
pub(crate) struct Frame {
    /// From x0 on, of which the first has no meaning.
    registers: [u64; 32],
    sepc: u64,
    sstatus: u64,
}

/// The cause of a trap, as the processor tells it.
struct Cause {
    number: u64,
    addr: u64,
}

impl Cause {
    fn read() -> Self {
        let (number, addr): (u64, u64);
        // SAFETY: it only reads what the trap left.
        unsafe { asm!("csrr {}, scause", "csrr {}, stval", out(reg) number, out(reg) addr) };
        Self { number, addr }
    }

    fn is_page_fault(&self) -> bool {
        matches!(self.number, FETCH | LOAD | STORE)
    }

    /// Returns the bits of a fault of ours. Whether a page was there the processor does not tell.
    fn error(&self) -> u64 {
        let refused = if walk::leaf(self.addr as usize).is_some() { REFUSED } else { 0 };
        refused
            | match self.number {
                STORE => WRITE,
                FETCH => EXECUTE,
                _ => 0,
            }
    }

    fn access(&self) -> Protection {
        match self.number {
            STORE => Protection::ReadWrite,
            FETCH => Protection::ReadExecute,
            _ => Protection::Read,
        }
    }
}

extern "C" fn trap(is_of_handler: u64, frame: &mut Frame) {
    let cause = Cause::read();
    // SAFETY: this CPU's, and nothing else uses it meanwhile; `handle` leaves it as it is.
    unsafe { cpu::local().depth += 1 };
    handle(is_of_handler, frame, &cause);
    // SAFETY: as above.
    unsafe { cpu::local().depth -= 1 };
}

fn handle(is_of_handler: u64, frame: &mut Frame, cause: &Cause) {
    if cause.number == SOFTWARE_INTERRUPT {
        // SAFETY: it ends the interrupt.
        unsafe { asm!("csrc sip, {}", in(reg) 2, options(nostack)) };
        machine::acknowledge();
        return;
    }
    if is_of_handler == 0 && cause.is_page_fault() {
        if FAULTS_AGAIN.swap(false, Ordering::Relaxed) {
            super::read_nowhere();
        }
        if machine::is_back(cause.addr as usize, cause.access()) || resume(frame, cause) {
            return;
        }
    }
    let what = match is_of_handler {
        1 => "double fault",
        _ if cause.is_page_fault() => "page fault",
        _ => "unexpected interrupt",
    };
    print_in_need(format_args!("\n{what} on CPU {}\n{cause}\n{frame}", cpu::number()));
    exit(Status::Died)
}

/// Goes on behind the access that faulted, if that was expected.
fn resume(frame: &mut Frame, cause: &Cause) -> bool {
    // SAFETY: the access that set it is under way on this CPU, and nothing else uses the words
    // meanwhile.
    let local = unsafe { cpu::local() };
    if local.resume == 0 {
        return false;
    }
    local.fault_addr = cause.addr;
    local.fault_error = cause.error();
    frame.sepc = core::mem::take(&mut local.resume);
    true
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cause {:#x} address {:016x}", self.number, self.addr)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sepc {:016x} sstatus {:x}", self.sepc, self.sstatus)?;
        for (nth, register) in self.registers.iter().enumerate().skip(1) {
            write!(f, "x{nth:<2} {register:016x}{}", if nth % 4 == 3 { '\n' } else { ' ' })?;
        }
        Ok(())
    }
}

/// Makes this CPU take interrupts and faults. For good.
pub(crate) fn enter() {
    const SOFTWARE: u64 = 1 << 1;
    let stack = Box::leak(alloc::vec![0u128; STACK_BYTES / 16].into_boxed_slice());
    // SAFETY: the entry and the stack live for ever.
    unsafe {
        asm!("csrw stvec, {}", "csrw sscratch, {}", "csrw sie, {}", in(reg) (&raw const trap_entry).addr(),
            in(reg) stack.as_ptr_range().end.addr(), in(reg) SOFTWARE);
    }
}
