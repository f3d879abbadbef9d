//! The instructions of accesses that may fault.

use super::cpu::{RESUME, RESUME_STACK};
use crate::access::{Fault, result};
use core::arch::asm;

/// `mov eax, 42; ret`
pub(crate) const CODE: u64 = u64::from_le_bytes([0xb8, 42, 0, 0, 0, 0xc3, 0x90, 0x90]);

/// The instructions of an access: the fault, if any, goes on behind it with `resume` cleared.
macro_rules! expect_fault {
    ($access:literal, $($operands:tt)*) => {{
        let untouched: u64;
        asm!(
            "lea rdx, [rip + 2f]",
            "mov gs:[{RESUME}], rdx",
            "mov gs:[{RESUME_STACK}], rsp",
            $access,
            "2:",
            "xor edx, edx",
            "xchg rdx, gs:[{RESUME}]",
            out("rdx") untouched,
            RESUME = const RESUME,
            RESUME_STACK = const RESUME_STACK,
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
        unsafe { expect_fault!("mov {value}, [{addr}]", value = inout(reg) value, addr = in(reg) addr,) };
    done.map(|()| value)
}

/// Writes a word.
///
/// # Safety
/// If there is memory, it is the caller's.
pub(crate) unsafe fn write(addr: usize, value: u64) -> Result<(), Fault> {
    // SAFETY: a fault is taken care of; the caller's promise.
    unsafe { expect_fault!("mov [{addr}], {value}", value = in(reg) value, addr = in(reg) addr,) }
}

/// Calls what is there; what it returns.
///
/// # Safety
/// If there is code, it is a function of the C ABI without arguments.
pub(crate) unsafe fn call(addr: usize) -> Result<u64, Fault> {
    let value: u64;
    // SAFETY: a fault is taken care of, and restores the stack; the caller's promise.
    let done =
        unsafe { expect_fault!("call {addr}", addr = in(reg) addr, lateout("rax") value, clobber_abi("C"),) };
    done.map(|()| value)
}
