//! Clocks: the CPU time of this thread for whole runs, a cheap tick for single calls.

pub use tick::{NAME, now as tick, ticks_per_ns};

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the CPU time that this thread has used: what others take from the machine is not in it.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time stamp counter: ~20 cycles to read, constant rate on every CPU of the last decade.
#[cfg(target_arch = "x86_64")]
mod tick {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// The unit of ticks.
    pub const NAME: &str = "rdtsc";

    /// Returns a tick count.
    #[inline]
    #[must_use]
    pub fn now() -> u64 {
        // SAFETY: the instruction exists on every x86-64 CPU and touches nothing but registers.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// Returns the ticks of a nanosecond, measured once over 20 ms.
    #[must_use]
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
    use rustix::time::{ClockId, clock_gettime};

    /// The unit of ticks.
    pub const NAME: &str = "nanoseconds at a nominal 1 GHz";

    /// Returns a tick count: nanoseconds.
    #[inline]
    #[must_use]
    pub fn now() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Returns the ticks of a nanosecond.
    #[must_use]
    pub fn ticks_per_ns() -> f64 {
        1.0
    }
}
