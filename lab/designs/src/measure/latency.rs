//! How long single calls take while another thread drains: one thread replaces areas of a random
//! live set, and times each call.

use super::{Budget, random_pages};
use crate::designs::Name;
use crate::rng::Rng;
use crate::times::Times;
use crate::{Ask, Design, Refusal, Setup};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Live areas: as many as a busy machine has.
pub const LIVE: u64 = 10_000;
/// From the end of a drain to the next: about as many areas are freed meanwhile as a machine frees
/// in its worst moments.
pub const PAUSE: Duration = Duration::from_millis(1);

/// A design's calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// Allocations.
    pub alloc: Times,
    /// Frees.
    pub free: Times,
    /// Drains meanwhile.
    pub drains: u64,
    /// Why it ended early, if it did.
    pub stopped: Option<String>,
}

/// The calls of `name`.
#[must_use]
pub fn measure(name: Name, budget: &Budget) -> Latency {
    let design = name.build(&Setup::of_this_machine());
    let (design, stop) = (design.as_ref(), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let drainer = scope.spawn(move || drain(design, stop));
        let mut latency = Latency::default();
        let ended = replace(design, budget.latency, &mut latency);
        // Relaxed: publishes nothing; the thread is joined.
        stop.store(true, Ordering::Relaxed);
        latency.stopped = ended.err().map(|refusal| format!("refused: {refusal}"));
        latency.drains = drainer.join().unwrap_or_default();
        latency
    })
}

fn drain(design: &dyn Design, stop: &AtomicBool) -> u64 {
    let mut drains = 0;
    // One at least, also of a thread that begins when the time is over.
    loop {
        design.purge();
        drains += 1;
        if stop.load(Ordering::Relaxed) {
            return drains;
        }
        std::thread::sleep(PAUSE);
    }
}

fn replace(design: &dyn Design, time: Duration, latency: &mut Latency) -> Result<(), Refusal> {
    let mut rng = Rng::new(2);
    let mut starts = Vec::new();
    for _ in 0..LIVE {
        starts.push(design.alloc(&Ask::new(random_pages(&mut rng)))?);
    }
    let start = Instant::now();
    while start.elapsed() < time {
        let slot = rng.below(LIVE) as usize;
        let ask = Ask::new(random_pages(&mut rng));
        let begin = Instant::now();
        design.free(starts[slot])?;
        let freed = Instant::now();
        starts[slot] = design.alloc(&ask)?;
        let end = Instant::now();
        latency.free.record(freed - begin);
        latency.alloc.record(end - freed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_calls_are_timed_while_drains_go_on() {
        let budget = Budget { latency: Duration::from_millis(20), ..Budget::QUICK };
        for &name in Name::ALL {
            let latency = measure(name, &budget);
            assert_eq!((latency.alloc.count(), latency.stopped), (latency.free.count(), None));
            assert!(latency.alloc.count() > 0 && latency.drains > 0);
        }
    }
}
