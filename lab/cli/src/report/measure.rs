//! What a pair of an allocation and a free costs when much is live already, and what more threads
//! bring.
//!
//! All sizes are random but repeatable: every design has the same requests. A measurement is
//! bounded by time, not by work: a design that gets slow ends early, and says where.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vmalloc_lab::designs::Name;
use vmalloc_lab::rng::Rng;
use vmalloc_lab::stats::median;
use vmalloc_lab::units::counted;
use vmalloc_lab::{Ask, Design, Refusal, Setup, workers};

/// Pages of the largest area of a live set; the smallest has one, and all sizes between are equally
/// likely.
pub(super) const MOST_PAGES: u64 = 64;
/// Pages of the areas of threads: a kernel stack, which is what most areas of a kernel are, with
/// its guard page.
pub(super) const STACK_PAGES: u64 = 5;
/// The least live set, of which a batch is a tenth: enough that a look at the clock, which is part
/// of its time, is shared by ten pairs.
pub(super) const LEAST_LIVE: u64 = 100;
/// The largest batch.
const MOST_BATCH: u64 = 64;
/// The time of a point is cut into so many, of which the median is told: what else runs on the
/// machine disturbs some of them. The first is not counted: the set is still in the order of its
/// birth.
const WINDOWS: u32 = 6;
/// Pairs between two looks at the flag: a look costs next to nothing then.
const PAIRS_BETWEEN_LOOKS: u64 = 32;

/// How long to measure, and how much.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Budget {
    /// The most live areas.
    pub(super) live_max: u64,
    /// Time for the pairs of a point.
    pub(super) point: Duration,
    /// Time to make the live set of a point.
    pub(super) fill: Duration,
    /// The most threads.
    pub(super) threads_max: u64,
    /// Events of the replay.
    pub(super) events: u64,
}

impl Budget {
    /// Some 5 to 60 seconds a design.
    pub(super) const FULL: Self = Self {
        live_max: 1_000_000,
        point: Duration::from_millis(360),
        fill: Duration::from_secs(60),
        threads_max: 64,
        events: 200_000,
    };

    /// Some seconds a design.
    pub(super) const QUICK: Self = Self {
        live_max: 100_000,
        point: Duration::from_millis(120),
        fill: Duration::from_secs(2),
        threads_max: 16,
        events: 20_000,
    };
}

/// The cost of a pair against live areas.
#[derive(Debug, Default, Serialize)]
pub(super) struct Curve {
    /// Live areas, and nanoseconds of an allocation and a free, with the purges that frees start.
    pub(super) points: Vec<(u64, f64)>,
    /// Why the line ends before the most live areas, if it does.
    pub(super) stopped: Option<String>,
}

/// 100, 1000 … live areas.
pub(super) fn live(name: Name, budget: &Budget) -> Curve {
    let mut curve = Curve::default();
    let ended = live_points(&*name.build(&Setup::of_this_machine()), budget, &mut curve.points);
    curve.stopped = ended.err();
    curve
}

fn live_points(design: &dyn Design, budget: &Budget, points: &mut Vec<(u64, f64)>) -> Result<(), String> {
    let refused = |refusal: Refusal| format!("refused: {refusal}");
    let (mut rng, mut starts) = (Rng::new(1), Vec::new());
    let mut live = LEAST_LIVE;
    while live <= budget.live_max {
        let begin = Instant::now();
        while (starts.len() as u64) < live {
            starts.push(design.alloc(&ask(&mut rng)).map_err(refused)?);
            if begin.elapsed() > budget.fill {
                let made = counted(starts.len() as u64, "area");
                return Err(format!("only {made} could be allocated in {:.0} s", budget.fill.as_secs_f64()));
            }
        }
        let windows: Result<Vec<_>, _> =
            (0..WINDOWS).map(|_| replace(design, &mut starts, &mut rng, budget.point / WINDOWS)).collect();
        points.push((live, median(&windows.map_err(refused)?[1..])));
        live *= 10;
    }
    Ok(())
}

fn ask(rng: &mut Rng) -> Ask {
    Ask::new(rng.between(1, MOST_PAGES))
}

/// Replaces areas for a while, a batch at a time, so that the choice of areas is not timed. Returns
/// the nanoseconds of a pair.
fn replace(
    design: &dyn Design,
    starts: &mut Vec<u64>,
    rng: &mut Rng,
    time: Duration,
) -> Result<f64, Refusal> {
    let batch = (starts.len() as u64 / 10).min(MOST_BATCH);
    let (mut pairs, mut took, start) = (0, Duration::ZERO, Instant::now());
    while start.elapsed() < time || pairs == 0 {
        let chosen: Vec<_> = (0..batch)
            .map(|_| (starts.swap_remove(rng.below(starts.len() as u64) as usize), ask(rng)))
            .collect();
        let begin = Instant::now();
        for (victim, _) in &chosen {
            design.free(*victim)?;
        }
        for (_, ask) in &chosen {
            starts.push(design.alloc(ask)?);
        }
        took += begin.elapsed();
        pairs += batch;
    }
    Ok(took.as_nanos() as f64 / pairs as f64)
}

/// Threads, 1, 2, 4 …, and million pairs a second of all of them together. Ends early where the
/// machine has no more threads, or the design refuses.
pub(super) fn threads(name: Name, budget: &Budget) -> Vec<(u64, f64)> {
    let powers = (0..u64::BITS).map(|power| 1 << power);
    powers
        .take_while(|&threads| threads <= budget.threads_max)
        .map_while(|threads| Some((threads, together(name, threads, budget.point)?)))
        .collect()
}

fn together(name: Name, threads: u64, time: Duration) -> Option<f64> {
    let design = name.build(&Setup::of_this_machine());
    let (design, stop) = (design.as_ref(), &AtomicBool::new(false));
    let meanwhile = |_: &_| {
        let start = Instant::now();
        std::thread::sleep(time);
        // Relaxed: publishes nothing; the threads are joined.
        stop.store(true, Ordering::Relaxed);
        start.elapsed()
    };
    let (done, time) = workers::run(threads as usize, |_| pairs(design, stop), meanwhile).ok()?;
    let sums: Option<Vec<u64>> = done.into_iter().map(|done| done.ok()?.ok()).collect();
    Some(sums?.iter().sum::<u64>() as f64 / time.as_secs_f64() / 1e6)
}

fn pairs(design: &dyn Design, stop: &AtomicBool) -> Result<u64, Refusal> {
    let ask = Ask::new(STACK_PAGES);
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
    fn every_design_has_its_points_or_a_reason() {
        let tiny = Duration::from_millis(1);
        let budget = Budget { live_max: 1000, point: tiny, threads_max: 5, ..Budget::QUICK };
        for &name in Name::ALL {
            let curve = live(name, &budget);
            let threads = threads(name, &budget);
            let places = |points: &[(u64, f64)]| points.iter().map(|point| point.0).collect::<Vec<_>>();
            assert_eq!((places(&curve.points), curve.stopped), (vec![100, 1000], None));
            assert_eq!(places(&threads), [1, 2, 4]);
            assert!(curve.points.iter().chain(&threads).all(|point| point.1 > 0.0));
        }
        let curve = live(Name::Vmalloc, &Budget { fill: Duration::ZERO, ..budget });
        assert_eq!(curve.stopped.as_deref(), Some("only 1 area could be allocated in 0 s"));
    }
}
