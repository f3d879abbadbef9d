//! The instructions of accesses that may fault.

use super::cpu::RESUME;
use crate::access::{Fault, result};
use core::arch::asm;

/// `mov w0, #42; ret`
pub(crate) const CODE: u64 = 0xd65f_03c0_5280_0540;

/// The instructions of an access: the fault, if any, goes on behind it with `resume` cleared.
macro_rules! expect_fault {
    ($access:literal, $($operands:tt)*) => {{
        let untouched: u64;
        asm!(
            "adr x9, 2f",
            "mrs x10, tpidr_el1",
            "str x9, [x10, #{RESUME}]",
            $access,
            "2:",
            "mrs x10, tpidr_el1",
            "ldr x9, [x10, #{RESUME}]",
            "str xzr, [x10, #{RESUME}]",
            out("x9") untouched,
            out("x10") _,
            RESUME = const RESUME,
            $($operands)*
        );
        result(untouched)
    }};
}

/// Reads a word.
pub(crate) fn read(addr: usize) -> Result<u64, Fault> {
    let mut value = 0u64;
    // SAFETY: a fault is taken care of, and reading memory does no harm.
    let done =
        unsafe { expect_fault!("ldr {value}, [{addr}]", value = inout(reg) value, addr = in(reg) addr,) };
    done.map(|()| value)
}

/// Writes a word.
///
/// # Safety
/// If there is memory, it is the caller's.
pub(crate) unsafe fn write(addr: usize, value: u64) -> Result<(), Fault> {
    // SAFETY: a fault is taken care of; the caller's promise.
    unsafe { expect_fault!("str {value}, [{addr}]", value = in(reg) value, addr = in(reg) addr,) }
}

/// Calls what is there; what it returns.
///
/// # Safety
/// If there is code, it is a function of the C ABI without arguments.
pub(crate) unsafe fn call(addr: usize) -> Result<u64, Fault> {
    let (value, untouched): (u64, u64);
    // SAFETY: it makes what was written the code that is run.
    unsafe { asm!("dsb ish", "ic ialluis", "dsb ish", "isb") };
    // SAFETY: a fault is taken care of; the caller's promise. A function keeps the two registers.
    unsafe {
        asm!(
            "adr x20, 2f",
            "mrs x21, tpidr_el1",
            "str x20, [x21, #{RESUME}]",
            "blr {addr}",
            "2:",
            "ldr x20, [x21, #{RESUME}]",
            "str xzr, [x21, #{RESUME}]",
            addr = in(reg) addr,
            RESUME = const RESUME,
            out("x20") untouched,
            out("x21") _,
            lateout("x0") value,
            clobber_abi("C"),
        );
    }
    result(untouched).map(|()| value)
}
