//! The thread that measures: it sleeps until an absolute time, again and again, as cyclictest does.
//!
//! How late it wakes is what the workers, the kernel and the machine below did to it. A wake-up
//! that comes later than the next one is due takes the place of those that it missed.

use super::{BUFFER_BYTES, PERIOD, Record};
use crate::cases::Area;
use crate::machine::Machine;
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vmalloc::Request;
use vmalloc_lab::times::Times;

/// Runs until `stop`.
pub(super) fn run(machine: &Machine, stop: &AtomicBool) -> Result<Record, String> {
    // The kernel may otherwise wake a thread 50 µs late, to save power. Where it refuses, that is
    // measured too.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let (mut late, mut pairs, mut missed) = (Times::precise(), Times::precise(), 0);
    let mut due = now() + PERIOD;
    // Relaxed: nothing is read that the flag publishes.
    while !stop.load(Ordering::Relaxed) {
        sleep_until(due)?;
        late.record(now().saturating_sub(due));
        pairs.record(pair(machine, &Request::new(BUFFER_BYTES))?);
        due += PERIOD;
        let behind = now().saturating_sub(due).as_nanos().div_ceil(PERIOD.as_nanos());
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        missed += u64::from(behind);
        due += PERIOD * behind;
    }
    Ok(Record { late: Some(late), timed: Some(pairs), missed, ..Record::default() })
}

/// How long an allocation and a free take together.
fn pair(machine: &Machine, request: &Request) -> Result<Duration, String> {
    let start = Instant::now();
    let area = Area::new(machine, request).map_err(|error| error.to_string())?;
    area.free().map_err(|error| error.to_string())?;
    Ok(start.elapsed())
}

/// The time since some moment that does not change.
fn now() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or(0))
}

fn sleep_until(due: Duration) -> Result<(), String> {
    let tv_sec = i64::try_from(due.as_secs()).unwrap_or(i64::MAX);
    let due = Timespec { tv_sec, tv_nsec: i64::from(due.subsec_nanos()) as _ };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &due) {
            Ok(()) => return Ok(()),
            // A signal; the time to wake has not changed.
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("can't sleep: {error}")),
        }
    }
}
