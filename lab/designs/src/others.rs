//! What other programs took of the CPUs that this one may use.
//!
//! Linux counts, for each CPU, how long it did something (`/proc/stat`), and for each program how
//! long it ran. The difference is what others had; what a hypervisor took for itself is in it.
//! Measured over a while it says whether that while can be judged by the clock on the wall.

use crate::cpu;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The share of the CPUs from which on a measurement is disturbed: less is what a machine at rest
/// does besides.
const MUCH: f64 = 0.1;

/// A while that is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    began: Instant,
    /// The time that the CPUs were busy until then; `None` where the system does not say.
    busy: Option<Duration>,
    own: Duration,
}

impl Watch {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), busy: busy(), own: own() }
    }

    /// Returns true if others have taken much since then. Where the system does not say how much,
    /// none.
    pub(crate) fn is_disturbed(&self) -> bool {
        let (Some(before), Some(now)) = (self.busy, busy()) else { return false };
        let (all, ran) = (now.saturating_sub(before), own().saturating_sub(self.own));
        share(all, ran, self.began.elapsed(), cpu::count()) > MUCH
    }
}

/// The share of `cpus` CPUs that others had in so much time: all that these did but what this
/// program ran. A tick of each CPU may have begun earlier.
fn share(all: Duration, ran: Duration, time: Duration, cpus: usize) -> f64 {
    let ticks = tick().map_or(Duration::ZERO, |tick| tick * cpus as u32);
    let others = all.saturating_sub(ran).saturating_sub(ticks);
    others.as_secs_f64() / (time.as_secs_f64() * cpus as f64).max(f64::MIN_POSITIVE)
}

/// The time that this program ran, in all threads.
fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The unit of the kernel's counts.
fn tick() -> Option<Duration> {
    Duration::from_secs(1).checked_div(u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

fn busy() -> Option<Duration> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = busy_ticks(&text, |cpu| allowed.is_set(cpu))?;
    let nanos = tick()?.as_nanos() * u128::from(ticks);
    Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

/// Ticks in which CPUs did something: all but idling and waiting for a disk. `None` where no line
/// is about one of them.
fn busy_ticks(stat: &str, allowed: impl Fn(usize) -> bool) -> Option<u64> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        // User, nice, system, idle, disk, interrupts of both kinds, stolen; guests are in the
        // first.
        let counts: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let idle = counts.get(3)? + counts.get(4)?;
        allowed(cpu).then(|| counts.iter().sum::<u64>() - idle)
    };
    let lines: Vec<u64> = stat.lines().filter_map(of_line).collect();
    (!lines.is_empty()).then(|| lines.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counts_but_idle_ones_of_allowed_cpus_are_summed() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 1000 500 4 5 6 1 1\ncpu1 10 0 0 7 0 0 0 0 0 0\ncpu2 100 0 0 0 0\nintr 5\n";
        assert_eq!(busy_ticks(stat, |_| true), Some(21 + 10 + 100));
        assert_eq!(busy_ticks(stat, |cpu| cpu == 1), Some(10));
        assert_eq!(busy_ticks(stat, |cpu| cpu == 7), None);
        assert_eq!(busy_ticks("cpu0 1 2\nnonsense", |_| true), None);
    }

    #[test]
    fn others_have_what_this_program_did_not_run() {
        let second = Duration::from_secs(1);
        assert_eq!(share(second, 2 * second, second, 2), 0.0);
        let half = share(2 * second, second, second, 2);
        assert!((0.4..=0.5).contains(&half), "{half}");
    }

    #[test]
    fn watching_takes_a_while() {
        let watch = Watch::start();
        let _ = watch.is_disturbed();
        assert!(watch.own <= own());
    }
}
