//! One space and many threads: pairs a second of all together, and how often a lock had to be waited for; with callers that purge by
//! themselves, and with a thread that drains.
//!
//! Threads work for a while of wall time, all at once, and the pairs of all are added up. Numbers of threads take turns, a window
//! each, so that whatever else the machine does hits all of them alike. Locks are counted in a pass of its own, which is not timed.

use crate::adapter::{Caller, Drained, House, PAGE_SHIFT, RealCpu, SpaceLock};
use crate::counting_lock::{self, CountingLock, Taken};
use crate::rng::Rng;
use crate::stats::median;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vmalloc::{Config, Request};

/// Areas that are live in all, whatever the number of threads.
const LIVE_AREAS: usize = 100_000;
/// Pages of the largest area of the live set.
const MOST_PAGES: u32 = 64;
/// Replacements for each area before anything is measured.
const CHURN: usize = 2;
/// Pages of the area that is allocated and freed.
const BOUNCED_PAGES: u32 = 3;

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Scene {
    /// Allocate 3 pages and a guard page, free them; the space is empty but for that.
    W1,
    /// Free a random area of 1…64 pages, one of the thread's share of 100,000 live ones, and allocate another.
    W5,
}

impl Scene {
    /// All scenes.
    pub const ALL: [Self; 2] = [Self::W1, Self::W5];

    /// One line for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::W1 => "3 pages and a guard page, empty space",
            Self::W5 => "each thread replaces areas of 1…64 pages at random, 100,000 live in all",
        }
    }
}

/// Who drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drain {
    /// The threads that free.
    Callers,
    /// A thread of the space's own.
    Thread,
}

impl Drain {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Callers, Self::Thread];

    /// One line for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Callers => "callers purge",
            Self::Thread => "a thread drains",
        }
    }
}

/// How much is measured, and what becomes of freed areas.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// What a window takes.
    pub window: Duration,
    /// The settings of the space, but for its guards.
    pub config: Config,
}

/// The result of one number of threads in one scene.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which scene.
    pub scene: Scene,
    /// Who drains.
    pub drain: Drain,
    /// How many threads.
    pub threads: usize,
    /// Millions of pairs a second, all threads together: the median of the rounds.
    pub mpairs_per_s: f64,
    /// The lowest and the highest of the rounds.
    pub range: [f64; 2],
    /// The median over that of the first number of threads.
    pub ratio: f64,
    /// Locks taken for a pair.
    pub locks_per_pair: f64,
    /// Of those, how many hundredths had to wait.
    pub waited_percent: f64,
}

/// Plays `scene` with each number of `threads` on a space with locks of the type `L`; ratios are to the first.
///
/// # Panics
/// When the space refuses a request, which it has room for.
pub fn run<L: SpaceLock>(
    scene: Scene,
    drain: Drain,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    match drain {
        Drain::Callers => {
            contest::<Caller<L, RealCpu>, Caller<CountingLock<L>, RealCpu>>(scene, threads, limits, progress)
        }
        Drain::Thread => contest::<Drained<L, RealCpu>, Drained<CountingLock<L>, RealCpu>>(
            scene, threads, limits, progress,
        ),
    }
    .into_iter()
    .map(|row| Row { drain, ..row })
    .collect()
}

/// Times spaces `H`, and counts the locks of spaces `N`.
fn contest<H: House + Sync, N: House + Sync>(
    scene: Scene,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    let stages: Vec<_> = threads.iter().map(|&count| Stage::<H>::new(scene, count, limits)).collect();
    let mut rates = vec![Vec::new(); threads.len()];
    for round in 0..limits.rounds {
        progress(&format!("round {} of {}", round + 1, limits.rounds));
        rates.iter_mut().zip(&stages).for_each(|(rates, stage)| rates.push(stage.play(limits.window).rate()));
    }
    drop(stages);
    progress("counting locks");
    let counted = threads.iter().map(|&count| Stage::<N>::new(scene, count, limits).play(limits.window));
    let first = rates.first().map_or(1.0, |rates| median(rates));
    let row = |((&threads, rates), counted): ((&usize, &Vec<f64>), Played)| Row {
        scene,
        drain: Drain::Callers,
        threads,
        mpairs_per_s: median(rates) / 1e6,
        range: [
            rates.iter().copied().fold(f64::MAX, f64::min) / 1e6,
            rates.iter().copied().fold(0.0, f64::max) / 1e6,
        ],
        ratio: median(rates) / first,
        locks_per_pair: counted.taken.locks as f64 / counted.pairs.max(1) as f64,
        waited_percent: counted.taken.waited_percent(),
    };
    threads.iter().zip(&rates).zip(counted).map(row).collect()
}

/// A space, and the areas that each thread has in it.
struct Stage<H> {
    scene: Scene,
    space: H,
    workers: Vec<Mutex<Worker>>,
}

/// What a thread keeps between windows.
struct Worker {
    live: Vec<usize>,
    rng: Rng,
}

/// What became of a window.
#[derive(Clone, Copy, Default)]
struct Played {
    pairs: u64,
    time: Duration,
    taken: Taken,
}

impl Played {
    /// Pairs a second.
    fn rate(&self) -> f64 {
        self.pairs as f64 / self.time.as_secs_f64()
    }
}

impl<H: House + Sync> Stage<H> {
    fn new(scene: Scene, threads: usize, limits: &Limits) -> Self {
        let config = match scene {
            Scene::W1 => limits.config,
            Scene::W5 => limits.config.guard(false),
        };
        let worker = |seed: usize| Mutex::new(Worker { live: Vec::new(), rng: Rng::new(seed as u64) });
        let stage = Self { scene, space: H::open(config), workers: (0..threads).map(worker).collect() };
        if scene == Scene::W5 {
            stage.fill(LIVE_AREAS / threads);
        }
        stage
    }

    /// Lets each worker make its areas, all at the same time, and replace each a few times.
    fn fill(&self, each: usize) {
        std::thread::scope(|scope| {
            for worker in &self.workers {
                scope.spawn(move || {
                    let worker = &mut lock(worker);
                    for _ in 0..each {
                        let area = self.allocate(worker.rng.between(1, MOST_PAGES));
                        worker.live.push(area);
                    }
                    (0..each * CHURN).for_each(|_| self.replace(worker));
                });
            }
        });
    }

    /// All threads work at once for so long.
    fn play(&self, window: Duration) -> Played {
        let (stop, barrier) = (&AtomicBool::new(false), &Barrier::new(self.workers.len() + 1));
        std::thread::scope(|scope| {
            let start = |worker| scope.spawn(move || self.work(&mut lock(worker), barrier, stop));
            let threads: Vec<_> = self.workers.iter().map(start).collect();
            barrier.wait();
            let start = Instant::now();
            std::thread::sleep(window);
            // Relaxed: publishes nothing; the threads are joined.
            stop.store(true, Ordering::Relaxed);
            let played = Played { time: start.elapsed(), ..Played::default() };
            threads.into_iter().map(|thread| thread.join().expect("no request is refused")).fold(
                played,
                |sum, (pairs, taken)| Played {
                    pairs: sum.pairs + pairs,
                    taken: sum.taken.plus(taken),
                    ..sum
                },
            )
        })
    }

    fn work(&self, worker: &mut Worker, barrier: &Barrier, stop: &AtomicBool) -> (u64, Taken) {
        barrier.wait();
        counting_lock::take();
        let mut pairs = 0;
        while !stop.load(Ordering::Relaxed) {
            match self.scene {
                Scene::W1 => self.free(self.allocate(BOUNCED_PAGES)),
                Scene::W5 => self.replace(worker),
            }
            pairs += 1;
        }
        (pairs, counting_lock::take())
    }

    #[inline]
    fn replace(&self, worker: &mut Worker) {
        let slot = worker.rng.below(worker.live.len() as u32) as usize;
        let pages = worker.rng.between(1, MOST_PAGES);
        self.free(worker.live[slot]);
        worker.live[slot] = self.allocate(pages);
    }

    #[inline]
    fn allocate(&self, pages: u32) -> usize {
        self.space.raw().alloc(&Request::new((pages as usize) << PAGE_SHIFT)).expect("space for every scene")
    }

    #[inline]
    fn free(&self, addr: usize) {
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.space.raw().free(addr) }.expect("a live area");
    }
}

/// Never contended: each worker has one thread.
fn lock(worker: &Mutex<Worker>) -> std::sync::MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc_linux::FutexLock;

    #[test]
    fn every_number_of_threads_makes_pairs_under_locks() {
        let limits = Limits { rounds: 1, window: Duration::from_millis(20), config: Config::default() };
        for (scene, drain) in Scene::ALL.into_iter().flat_map(|scene| Drain::ALL.map(|drain| (scene, drain)))
        {
            let rows = run::<FutexLock>(scene, drain, &[1, 3], &limits, &|_| {});
            assert_eq!(rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, 3]);
            for row in &rows {
                assert!(row.drain == drain && row.mpairs_per_s > 0.0 && row.locks_per_pair > 0.0, "{row:?}");
            }
            assert_eq!(rows[0].ratio, 1.0);
            if drain == Drain::Callers {
                assert_eq!(rows[0].waited_percent, 0.0);
            }
        }
    }

    #[test]
    fn live_sets_are_kept_from_window_to_window() {
        let limits = Limits { rounds: 1, window: Duration::from_millis(5), config: Config::default() };
        let stage = Stage::<Drained<FutexLock, RealCpu>>::new(Scene::W5, 8, &limits);
        for _ in 0..2 {
            let _ = stage.play(limits.window);
        }
        // The drain thread may be at work: then the counts are of more than one moment.
        let agrees = || {
            std::thread::sleep(Duration::from_millis(1));
            stage.space.stats().busy_areas == LIVE_AREAS as u64
        };
        assert!((0..10_000).any(|_| agrees()), "{:?}", stage.space.stats());
        stage.space.verify().expect("a space that is whole");
    }
}
