//! The cost of an allocation and a free when much is live already.
//!
//! The set is filled with areas of random sizes, then some are replaced for a while: a batch of
//! areas picked at random is freed, and as many are allocated. Each half of a batch is timed as a
//! whole, so the clock's own time, which is taken off, and the choice of areas weigh little. The
//! set then grows tenfold, and so on.

use super::{Budget, random_pages};
use crate::designs::Name;
use crate::rng::Rng;
use crate::units::counted;
use crate::{Ask, Design, Refusal, Setup};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The largest batch: it takes some microseconds, hundreds of times as long as the clock.
const MOST_BATCH: u64 = 64;
/// A batch is no more than this part of the live set, so that the set keeps its size.
const BATCH_PART: u64 = 10;
/// A part of the time of a point, before its pairs are timed: the set is then no longer in the
/// order of its birth.
const WARM_UP_PART: u32 = 2;
/// The time of a point is cut into so many, of which the median is told: what else runs on the
/// machine disturbs some of them.
pub const WINDOWS: u32 = 5;
/// How often the clock's own time is taken. The least counts: what else runs makes the others
/// longer, and too much taken off leaves nothing of a short call.
const CLOCK_RUNS: usize = 16;
/// Nanoseconds of the least batch that is told: the clock counts no less.
const LEAST_NS: f64 = 1.0;
/// Memory that an area takes in the most wasteful design, with room to spare.
const BYTES_PER_AREA: u64 = 512;

/// A design's line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Curve {
    /// From few live areas to many.
    pub points: Vec<Point>,
    /// Live areas at which no more than the clock's own time was measured: no points.
    pub unmeasured: Vec<u64>,
    /// Why the line ends before the most live areas, if it does.
    pub stopped: Option<String>,
}

/// The average cost of calls.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Live areas.
    pub live: u64,
    /// Nanoseconds of an allocation.
    pub alloc_ns: f64,
    /// Nanoseconds of a free, and of the purges that frees started.
    pub free_ns: f64,
    /// Pairs that were timed.
    pub pairs: u64,
}

impl Point {
    /// Nanoseconds of an allocation and a free.
    #[must_use]
    pub fn pair_ns(&self) -> f64 {
        self.alloc_ns + self.free_ns
    }
}

/// The line of `name`: 10, 100 … live areas.
#[must_use]
pub fn measure(name: Name, budget: &Budget) -> Curve {
    let mut set = LiveSet::new(name.build(&Setup::of_this_machine()));
    let mut curve = Curve { points: Vec::new(), unmeasured: Vec::new(), stopped: None };
    let clock = clock_ns();
    let mut live = 10;
    while live <= budget.live_max {
        match set.point(live, budget, clock) {
            Ok(Some(point)) => curve.points.push(point),
            Ok(None) => curve.unmeasured.push(live),
            Err(reason) => {
                curve.stopped = Some(reason);
                break;
            }
        }
        live *= 10;
    }
    curve
}

/// Measures the time of reading the clock.
fn clock_ns() -> f64 {
    const TIMES: u32 = 1000;
    let run = || {
        let start = Instant::now();
        let mut last = start;
        for _ in 0..TIMES {
            last = std::hint::black_box(Instant::now());
        }
        (last - start).as_nanos() as f64 / f64::from(TIMES)
    };
    (0..CLOCK_RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

struct LiveSet {
    design: Box<dyn Design>,
    starts: Vec<u64>,
    rng: Rng,
    /// The cost of an allocation at the last point: at more live areas it costs no less.
    alloc_ns: f64,
    /// The batch: what is freed, and what is asked for.
    victims: Vec<u64>,
    asks: Vec<Ask>,
}

impl LiveSet {
    fn new(design: Box<dyn Design>) -> Self {
        Self {
            design,
            starts: Vec::new(),
            rng: Rng::new(1),
            alloc_ns: 0.0,
            victims: Vec::new(),
            asks: Vec::new(),
        }
    }

    /// Measures with so many areas live. Returns `None` if that is less than the clock can tell.
    fn point(&mut self, live: u64, budget: &Budget, clock: f64) -> Result<Option<Point>, String> {
        self.fill(live, budget.fill)?;
        self.replace(budget.point / WARM_UP_PART).map_err(refused)?;
        let windows: Result<Vec<_>, _> = (0..WINDOWS).map(|_| self.replace(budget.point / WINDOWS)).collect();
        let mut windows = windows.map_err(refused)?;
        windows.sort_by_key(|window| window.pair());
        let point = windows[windows.len() / 2].point(live, clock);
        self.alloc_ns = point.map_or(self.alloc_ns, |point| point.alloc_ns);
        Ok(point)
    }

    /// Allocates until so many areas are live.
    fn fill(&mut self, live: u64, limit: Duration) -> Result<(), String> {
        check_memory(live)?;
        self.check_time(live, limit)?;
        let start = Instant::now();
        while (self.starts.len() as u64) < live {
            let ask = Ask::new(random_pages(&mut self.rng));
            self.starts.push(self.design.alloc(&ask).map_err(refused)?);
            if start.elapsed() > limit {
                let made = counted(self.starts.len() as u64, "area");
                return Err(format!("only {made} could be allocated in {:.0} s", limit.as_secs_f64()));
            }
        }
        Ok(())
    }

    /// Refuses what would take too long for sure.
    fn check_time(&self, live: u64, limit: Duration) -> Result<(), String> {
        let missing = live - self.starts.len() as u64;
        if missing as f64 * self.alloc_ns <= limit.as_nanos() as f64 {
            return Ok(());
        }
        let (missing, seconds) = (counted(missing, "more area"), limit.as_secs_f64());
        Err(format!("to allocate {missing} would take longer than {seconds:.0} s"))
    }

    /// Replaces areas for a while.
    fn replace(&mut self, time: Duration) -> Result<Times, Refusal> {
        let mut times = Times::default();
        let start = Instant::now();
        while start.elapsed() < time || times.pairs == 0 {
            self.choose();
            let begin = Instant::now();
            for &victim in &self.victims {
                self.design.free(victim)?;
            }
            let freed = Instant::now();
            for ask in &self.asks {
                self.starts.push(self.design.alloc(ask)?);
            }
            times.free += freed - begin;
            times.alloc += freed.elapsed();
            times.pairs += self.asks.len() as u64;
            times.batches += 1;
        }
        Ok(times)
    }

    fn choose(&mut self) {
        let batch = (self.starts.len() as u64 / BATCH_PART).clamp(1, MOST_BATCH);
        self.victims.clear();
        self.asks.clear();
        for _ in 0..batch {
            let victim = self.rng.below(self.starts.len() as u64) as usize;
            self.victims.push(self.starts.swap_remove(victim));
            self.asks.push(Ask::new(random_pages(&mut self.rng)));
        }
    }
}

#[derive(Default)]
struct Times {
    alloc: Duration,
    free: Duration,
    pairs: u64,
    batches: u64,
}

impl Times {
    /// Returns the average of a call, without the clock's own time; `None` if that was all.
    fn point(&self, live: u64, clock: f64) -> Option<Point> {
        let (pairs, batches) = (self.pairs as f64, self.batches as f64);
        let each = |time: Duration| {
            let left = time.as_nanos() as f64 - batches * clock;
            (left >= batches * LEAST_NS).then_some(left / pairs)
        };
        Some(Point { live, alloc_ns: each(self.alloc)?, free_ns: each(self.free)?, pairs: self.pairs })
    }

    /// Returns the time of a pair in picoseconds, so that short ones differ too.
    fn pair(&self) -> u128 {
        (self.alloc + self.free).as_nanos() * 1000 / u128::from(self.pairs.max(1))
    }
}

fn refused(refusal: Refusal) -> String {
    format!("refused: {refusal}")
}

fn check_memory(live: u64) -> Result<(), String> {
    match super::machine::available_bytes() {
        Some(available) if live * BYTES_PER_AREA > available => {
            Err(format!("memory for {} could be short", counted(live, "area")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_has_a_point_for_each_power_of_ten_or_a_reason() {
        let budget = Budget { live_max: 1000, point: Duration::from_millis(1), ..Budget::QUICK };
        for &name in Name::ALL {
            let curve = measure(name, &budget);
            let mut live: Vec<_> = curve.points.iter().map(|point| point.live).collect();
            live.extend(&curve.unmeasured);
            live.sort_unstable();
            assert_eq!((live, curve.stopped), (vec![10, 100, 1000], None), "{}", name.as_str());
            assert!(
                curve
                    .points
                    .iter()
                    .all(|point| point.pairs > 0 && point.pair_ns() >= 1.0 / MOST_BATCH as f64)
            );
        }
        let curve = measure(Name::Vmalloc, &Budget { fill: Duration::ZERO, ..budget });
        assert_eq!(
            (curve.points, curve.stopped.as_deref()),
            (vec![], Some("only 1 area could be allocated in 0 s"))
        );
    }

    #[test]
    fn a_time_that_is_the_clock_s_own_is_no_point() {
        let times = |alloc, free| Times {
            alloc: Duration::from_nanos(alloc),
            free: Duration::from_nanos(free),
            pairs: 200,
            batches: 100,
        };
        let point = times(4000, 3000).point(10, 20.0).expect("10 and 5 ns a call are left");
        assert_eq!((point.alloc_ns, point.free_ns, point.pairs), (10.0, 5.0, 200));
        for (alloc, free) in [(1900, 3000), (4000, 2000), (4000, 2099)] {
            assert_eq!(times(alloc, free).point(10, 20.0), None, "{alloc} {free}");
        }
    }
}
