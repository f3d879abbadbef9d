//! Two clocks: the CPU time of this thread for whole windows, a cheap tick for single calls.

use std::time::Duration;

pub use tick::{now as tick, ticks_per_ns};

/// The CPU time that this thread has used.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time stamp counter: ~20 cycles to read, constant rate on every CPU of the last decade.
#[cfg(target_arch = "x86_64")]
mod tick {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// A tick count.
    #[inline]
    pub fn now() -> u64 {
        // SAFETY: the instruction exists on every x86-64 CPU and touches nothing but registers.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// Ticks in a nanosecond, measured once over 20 ms.
    pub fn ticks_per_ns() -> f64 {
        static RATE: OnceLock<f64> = OnceLock::new();
        *RATE.get_or_init(|| {
            let (wall, ticks) = (Instant::now(), now());
            while wall.elapsed() < Duration::from_millis(20) {}
            (now() - ticks) as f64 / wall.elapsed().as_nanos() as f64
        })
    }
}

/// The monotonic clock, where no cheaper counter is known.
#[cfg(not(target_arch = "x86_64"))]
mod tick {
    /// A tick count: nanoseconds.
    #[inline]
    pub fn now() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Ticks in a nanosecond.
    pub fn ticks_per_ns() -> f64 {
        1.0
    }
}
