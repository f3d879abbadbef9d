//! Counting windows of instructions inside one run of `valgrind --tool=callgrind
//! --instr-atstart=no`.
//!
//! Valgrind recognises a sequence of instructions that does nothing on a real CPU, and takes it as
//! a request from the program (the Valgrind manual, "The Client Request mechanism", and Callgrind's
//! `callgrind.h`). Until counting is switched on the program runs nearly uninstrumented, so set-ups
//! of a million areas stay affordable. Outside Valgrind, and on other machines than x86-64, every
//! request does nothing.

use std::ffi::CStr;

/// `VG_USERREQ_TOOL_BASE('C', 'T')`: the numbers of Callgrind's requests start here.
const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const ZERO_STATS: usize = CALLGRIND + 1;
const DUMP_STATS_AT: usize = CALLGRIND + 3;
const START_INSTRUMENTATION: usize = CALLGRIND + 4;
const STOP_INSTRUMENTATION: usize = CALLGRIND + 5;

/// Switches counting on, from zero.
pub fn start() {
    request(START_INSTRUMENTATION, 0);
    request(ZERO_STATS, 0);
}

/// Ends a window: writes what was counted since the last one under `label`, and counts on from
/// zero.
#[inline(never)]
pub fn end_window(label: &CStr) {
    request(DUMP_STATS_AT, label.as_ptr() as usize);
}

/// Switches counting off.
pub fn stop() {
    request(STOP_INSTRUMENTATION, 0);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn request(number: usize, argument: usize) {
    let arguments: [usize; 6] = [number, argument, 0, 0, 0, 0];
    // SAFETY: outside Valgrind the four rotations add up to 128 bits, which leaves rdi as it was,
    // and exchanging rbx with itself does nothing; under Valgrind the answer arrives in rdx and no
    // other register changes. `arguments` outlives the call, and memory is not assumed unchanged
    // across it.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const arguments,
            inout("rdx") 0usize => _,
            options(nostack)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_number: usize, _argument: usize) {}
