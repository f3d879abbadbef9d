//! The time that a cache line takes from one core to another.
//!
//! Threads that share a space pass lines to each other, and so this time decides what a second one
//! brings. A hypervisor may move a machine's cores apart from one second to the next, and a line
//! takes several times as long then: figures of before and after can't be compared.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Times that a line goes there and back.
const TURNS: u64 = 50_000;

/// A line that no other value shares.
#[repr(align(256))]
struct Line(AtomicU64);

/// Returns how long a line takes from the first core that this thread may use to the second, as the
/// mean of many; `None` where it may use one alone.
#[must_use]
pub fn passed() -> Option<Duration> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let (first, second) = (cores.next()?, cores.next()?);
    let line = &Line(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(move || play(line, 1, second));
        let start = Instant::now();
        scope.spawn(move || play(line, 0, first)).join().ok()?;
        Some(start.elapsed() / (2 * TURNS) as u32)
    })
}

/// Waits for each number of one parity, and writes the next, on one core.
fn play(Line(line): &Line, parity: u64, core: usize) {
    let mut own = CpuSet::new();
    own.set(core);
    // A thread that can't be bound passes lines all the same.
    let _ = sched_setaffinity(None, &own);
    for turn in 0..TURNS {
        let wanted = 2 * turn + parity;
        while line.load(Ordering::Acquire) != wanted {
            std::hint::spin_loop();
        }
        line.store(wanted + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_time_between_two_cores() {
        let cores = sched_getaffinity(None).map_or(0, |allowed| allowed.count());
        assert_eq!(passed().is_some_and(|time| !time.is_zero()), cores > 1);
    }
}
