//! Faults: those that are expected, and a dump of all registers for the others.

use super::cpu;
use crate::access::{EXECUTE, REFUSED, WRITE};
use crate::exit::{Status, exit};
use crate::machine;
use crate::serial::print_in_need;
use alloc::boxed::Box;
use core::arch::asm;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use vmalloc_tables::{Interrupts, Protection};

core::arch::global_asm!(include_str!("traps.s"), trap = sym trap);

unsafe extern "C" {
    static trap_vectors: [u8; 0];
}

const STACK_BYTES: usize = 16 << 10;

/// Entries: a fault of the kernel, and one of a handler.
const FAULT: u64 = 0;
const FAULT_OF_HANDLER: u64 = 4;
/// Classes of exceptions of the kernel itself.
const FETCH: u64 = 0x21;
const DATA: u64 = 0x25;

/// Makes the next fault's handler fault.
pub(crate) static FAULTS_AGAIN: AtomicBool = AtomicBool::new(false);

/// The state that the entry saved.
#[repr(C)]
pub(crate) struct Frame {
    registers: [u64; 31],
    elr: u64,
    spsr: u64,
    sp: u64,
}

/// The cause of an exception, as the processor tells it.
struct Cause {
    class: u64,
    status: u64,
    addr: u64,
}

impl Cause {
    fn read() -> Self {
        let (syndrome, addr): (u64, u64);
        // SAFETY: it only reads what the exception left.
        unsafe { asm!("mrs {}, esr_el1", "mrs {}, far_el1", out(reg) syndrome, out(reg) addr) };
        Self { class: syndrome >> 26 & 0x3f, status: syndrome & 0x1ff_ffff, addr }
    }

    fn is_page_fault(&self) -> bool {
        // No translation, or no permission.
        matches!(self.class, FETCH | DATA) && matches!(self.status >> 2 & 15, 1 | 3)
    }

    /// Returns the bits of a fault of ours.
    fn error(&self) -> u64 {
        let is_refused = self.status >> 2 & 15 == 3;
        let is_write = self.class == DATA && self.status >> 6 & 1 != 0;
        let bit = |is: bool, bit| if is { bit } else { 0 };
        bit(is_refused, REFUSED) | bit(is_write, WRITE) | bit(self.class == FETCH, EXECUTE)
    }

    fn access(&self) -> Protection {
        match self.error() & (WRITE | EXECUTE) {
            WRITE => Protection::ReadWrite,
            EXECUTE => Protection::ReadExecute,
            _ => Protection::Read,
        }
    }
}

extern "C" fn trap(vector: u64, frame: &mut Frame) {
    let cause = Cause::read();
    // Counted as interrupts that are off, so that nothing turns them on before the end.
    cpu::Here::off();
    handle(vector, frame, &cause);
    cpu::leave_handler();
}

fn handle(vector: u64, frame: &mut Frame, cause: &Cause) {
    if vector == FAULT && cause.is_page_fault() {
        if FAULTS_AGAIN.swap(false, Ordering::Relaxed) {
            super::read_nowhere();
        }
        if machine::is_back(cause.addr as usize, cause.access()) || resume(frame, cause) {
            return;
        }
    }
    let what = match vector {
        FAULT_OF_HANDLER => "double fault",
        FAULT if cause.is_page_fault() => "page fault",
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
    frame.elr = core::mem::take(&mut local.resume);
    true
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {:#x} status {:#x} address {:016x}", self.class, self.status, self.addr)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "elr {:016x} spsr {:x} sp {:016x}", self.elr, self.spsr, self.sp)?;
        for (nth, register) in self.registers.iter().enumerate() {
            write!(f, "x{nth:<2} {register:016x}{}", if nth % 4 == 3 { '\n' } else { ' ' })?;
        }
        Ok(())
    }
}

/// Makes this CPU take exceptions. For good.
pub(crate) fn enter() {
    let stack = Box::leak(alloc::vec![0u128; STACK_BYTES / 16].into_boxed_slice());
    // SAFETY: the entries and the stack live for ever. The stack pointer of exceptions can be set
    // while it is selected alone.
    unsafe {
        asm!(
            "msr vbar_el1, {vectors}",
            "msr spsel, #1",
            "mov sp, {stack}",
            "msr spsel, #0",
            "isb",
            vectors = in(reg) (&raw const trap_vectors).addr(),
            stack = in(reg) stack.as_ptr_range().end.addr(),
        );
    }
}
