//! The instructions of accesses that may fault.

use super::cpu::RESUME;
use crate::access::{Fault, result};
use core::arch::asm;

/// `li a0, 42; ret`
pub(crate) const CODE: u64 = 0x0000_8067_02a0_0513;

/// The instructions of an access: the fault, if any, goes on behind it with `resume` cleared. `tp`
/// leads to the words of this CPU.
macro_rules! expect_fault {
    ($access:literal, $($operands:tt)*) => {{
        let untouched: u64;
        asm!(
            "la s2, 2f",
            "sd s2, {RESUME}(tp)",
            $access,
            "2:",
            "ld s2, {RESUME}(tp)",
            "sd zero, {RESUME}(tp)",
            out("s2") untouched,
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
        unsafe { expect_fault!("ld {value}, ({addr})", value = inout(reg) value, addr = in(reg) addr,) };
    done.map(|()| value)
}

/// Writes a word.
///
/// # Safety
/// If there is memory, it is the caller's.
pub(crate) unsafe fn write(addr: usize, value: u64) -> Result<(), Fault> {
    // SAFETY: a fault is taken care of; the caller's promise.
    unsafe { expect_fault!("sd {value}, ({addr})", value = in(reg) value, addr = in(reg) addr,) }
}

/// Calls what is there; what it returns.
///
/// # Safety
/// If there is code, it is a function of the C ABI without arguments.
pub(crate) unsafe fn call(addr: usize) -> Result<u64, Fault> {
    let value: u64;
    // SAFETY: a fault is taken care of; the caller's promise. The code that was written is seen.
    let done = unsafe {
        expect_fault!("fence.i\njalr {addr}", addr = in(reg) addr, lateout("a0") value, clobber_abi("C"),)
    };
    done.map(|()| value)
}
