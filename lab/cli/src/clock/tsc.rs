//! x86-64: the time stamp counter, which all CPUs share and which runs at a constant rate.

/// What is counted.
pub(crate) const NAME: &str = "rdtsc";

/// Cycles since the machine started.
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}
