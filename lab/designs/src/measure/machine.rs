//! The machine of a measurement, and how steady it is.

use crate::rng::Rng;
use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Machine {
    /// Its processor's name.
    pub cpu: String,
    /// CPUs that this program may use.
    pub cpus: usize,
    /// Its kernel's release.
    pub kernel: String,
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Processes that ran or wanted to in the last minute, before anything was measured, as the
    /// kernel prints it.
    pub load: String,
}

impl Machine {
    /// The one that this runs on.
    #[must_use]
    pub fn this() -> Self {
        let load = read("/proc/loadavg").and_then(|load| load.split(' ').next().map(str::to_owned));
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            cpus: crate::cpu::count(),
            kernel: read("/proc/sys/kernel/osrelease").map_or_else(unknown, |text| text.trim().into()),
            memory_bytes: memory("MemTotal").unwrap_or(0),
            load: load.unwrap_or_else(unknown),
        }
    }
}

fn unknown() -> String {
    "unknown".into()
}

/// Bytes of memory that can be had without swapping, where the kernel tells.
pub(super) fn available_bytes() -> Option<u64> {
    memory("MemAvailable")
}

fn memory(name: &str) -> Option<u64> {
    let value = field("/proc/meminfo", name)?;
    value.split(' ').next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of the first line `name: value`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// How much the same work differs from one time to the next.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Noise {
    /// Times that the work was done.
    pub times: usize,
    /// The median of the times, in nanoseconds.
    pub median_ns: u64,
    /// By how much of the median the slowest tenth was slower, at least.
    pub slow_tenth: f64,
    /// By how much the slowest was.
    pub slowest: f64,
}

/// Steps of the work: some 100 µs, shorter than the time slices that others get.
const STEPS: u64 = 100_000;

/// Does the same work again and again.
#[must_use]
pub fn noise(times: usize) -> Noise {
    let mut taken: Vec<_> = (0..times.max(1)).map(|_| work()).collect();
    taken.sort_unstable();
    let median = taken[taken.len() / 2];
    let above = |time: Duration| (time.as_secs_f64() / median.as_secs_f64().max(1e-9) - 1.0).max(0.0);
    Noise {
        times: taken.len(),
        median_ns: median.as_nanos() as u64,
        slow_tenth: above(taken[taken.len() * 9 / 10]),
        slowest: above(taken[taken.len() - 1]),
    }
}

fn work() -> Duration {
    let start = Instant::now();
    let mut rng = Rng::new(4);
    let sum = (0..STEPS).fold(0, |sum: u64, _| sum ^ rng.next_u64());
    black_box(sum);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_and_noise_are_measured() {
        let machine = Machine::this();
        assert!(machine.cpus > 0 && !machine.cpu.is_empty() && !machine.kernel.is_empty());
        let noise = noise(20);
        assert!(noise.times == 20 && noise.median_ns > 0);
        assert!(0.0 <= noise.slow_tenth && noise.slow_tenth <= noise.slowest);
    }
}
