//! How many pairs threads make together: each allocates and frees an area of the same size, again
//! and again.

use super::Budget;
use crate::designs::Name;
use crate::{Ask, Design, Refusal, Setup, workers};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pages of an area: a kernel stack, which is what most areas of a kernel are, with its guard page.
pub const PAGES: u64 = 5;
/// Pairs between two looks at the flag: a look costs next to nothing then.
const PAIRS_BETWEEN_LOOKS: u64 = 32;

/// How much so many threads did.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Threads.
    pub threads: usize,
    /// Pairs of all of them in a second.
    pub pairs_per_second: f64,
}

/// The line of `name`: 1, 2, 4 … threads. It ends early where the machine has no more threads, or
/// the design refuses.
#[must_use]
pub fn measure(name: Name, budget: &Budget) -> Vec<Point> {
    let powers =
        (0..usize::BITS).map(|power| 1 << power).take_while(|&threads| threads <= budget.threads_max);
    powers.map_while(|threads| point(name, threads, budget.threads)).collect()
}

fn point(name: Name, threads: usize, time: Duration) -> Option<Point> {
    let design = name.build(&Setup::of_this_machine());
    let (design, stop) = (design.as_ref(), &AtomicBool::new(false));
    let meanwhile = |_: &_| {
        let start = Instant::now();
        std::thread::sleep(time);
        // Relaxed: publishes nothing; the threads are joined.
        stop.store(true, Ordering::Relaxed);
        start.elapsed()
    };
    let (done, time) = workers::run(threads, |_| pairs(design, stop), meanwhile).ok()?;
    let sums: Option<Vec<u64>> = done.into_iter().map(|done| done.ok()?.ok()).collect();
    let pairs: u64 = sums?.iter().sum();
    Some(Point { threads, pairs_per_second: pairs as f64 / time.as_secs_f64() })
}

fn pairs(design: &dyn Design, stop: &AtomicBool) -> Result<u64, Refusal> {
    let ask = Ask::new(PAGES);
    let mut pairs = 0;
    // Some pairs at least, also of a thread that begins when the time is over.
    loop {
        for _ in 0..PAIRS_BETWEEN_LOOKS {
            design.free(design.alloc(&ask)?)?;
        }
        pairs += PAIRS_BETWEEN_LOOKS;
        if stop.load(Ordering::Relaxed) {
            return Ok(pairs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        let budget = Budget { threads_max: 5, threads: Duration::from_millis(2), ..Budget::QUICK };
        for &name in Name::ALL {
            let points = measure(name, &budget);
            assert_eq!(points.iter().map(|point| point.threads).collect::<Vec<_>>(), [1, 2, 4]);
            assert!(points.iter().all(|point| point.pairs_per_second > 0.0));
        }
    }
}
