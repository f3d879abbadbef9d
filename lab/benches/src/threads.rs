//! One space and many threads: pairs a second of all together, with callers that purge by
//! themselves, and with a thread that drains. What threads wait for, the machine of virtual CPUs
//! tells (`cargo xtask cores locks`).
//!
//! Threads work for a while of wall time, all at once, and the pairs of all are added up. Numbers
//! of threads take turns, a window each, so that whatever else the machine does hits all of them
//! alike.

use crate::adapter::{Caller, Drained, House};
use crate::scene::Scene;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vmalloc::SpaceOptions;
use vmalloc_kit::null::Cpus;
use vmalloc_kit::rng::Rng;
use vmalloc_kit::stats::median;
use vmalloc_kit::workers::{self, all_done};
use vmalloc_linux::FutexLock;

/// Replacements for each area before anything is measured.
const CHURN: usize = 2;

/// The thread that drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// The wall time of a window.
    pub window: Duration,
    /// Areas that are live in W5.
    pub live: usize,
    /// The settings of the space, but for its guards.
    pub options: SpaceOptions,
}

/// The result of one number of threads in one scene.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which scene.
    pub scene: Scene,
    /// The thread that drains.
    pub drain: Drain,
    /// How many threads.
    pub threads: usize,
    /// Millions of pairs a second, all threads together: the median of the rounds.
    pub mpairs_per_s: f64,
    /// The lowest and the highest of the rounds.
    pub range: [f64; 2],
    /// The median over that of the first number of threads.
    pub ratio: f64,
}

/// Plays `scene` with each number of `threads` on a space with the
/// product's locks; ratios are to the first.
///
/// # Panics
/// When the space refuses a request, which it has room for.
pub fn run(
    scene: Scene,
    drain: Drain,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    let contest = match drain {
        Drain::Callers => contest::<Caller<FutexLock, Cpus>>,
        Drain::Thread => contest::<Drained<FutexLock, Cpus>>,
    };
    let played = contest(scene, threads, limits, progress);
    let first = played.first().map_or(1.0, |rates| median(rates));
    let row = |(&threads, rates): (&usize, &Vec<f64>)| Row {
        scene,
        drain,
        threads,
        mpairs_per_s: median(rates) / 1e6,
        range: [
            rates.iter().copied().fold(f64::MAX, f64::min) / 1e6,
            rates.iter().copied().fold(0.0, f64::max) / 1e6,
        ],
        ratio: median(rates) / first,
    };
    threads.iter().zip(&played).map(row).collect()
}

/// Times spaces `H`: for each number of threads the pairs a second in every round.
fn contest<H: House + Sync>(
    scene: Scene,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<Vec<f64>> {
    let stage = |&count: &_| Stage::<H>::new(scene, count, limits);
    let stages: Vec<_> = threads.iter().map(stage).collect();
    let mut rates = vec![Vec::new(); threads.len()];
    for round in 0..limits.rounds {
        progress(&format!("round {} of {}", round + 1, limits.rounds));
        rates.iter_mut().zip(&stages).for_each(|(rates, stage)| rates.push(stage.play(limits.window).rate()));
    }
    rates
}

/// A space, and the areas that each thread has in it.
struct Stage<H> {
    scene: Scene,
    space: H,
    workers: Vec<Mutex<Worker>>,
}

/// The state of a thread between windows, which no other thread's cache lines have a part of: its
/// numbers change with each pair.
#[repr(align(128))]
struct Worker {
    live: Vec<usize>,
    rng: Rng,
}

/// The results of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Played {
    pairs: u64,
    time: Duration,
}

impl Played {
    /// Pairs a second.
    fn rate(&self) -> f64 {
        self.pairs as f64 / self.time.as_secs_f64()
    }
}

impl<H: House + Sync> Stage<H> {
    fn new(scene: Scene, threads: usize, limits: &Limits) -> Self {
        let worker = |seed| Mutex::new(Worker { live: Vec::new(), rng: Rng::new(seed as u64) });
        let space = H::open(scene.options(limits.options));
        let workers = (0..threads).map(worker).collect();
        let stage = Self { scene, space, workers };
        if scene == Scene::W5 {
            stage.fill((limits.live / threads).max(1));
        }
        stage
    }

    /// Lets each worker make its areas, all at the same time, and replace each a few times.
    fn fill(&self, each: usize) {
        let work = |number: usize| {
            let worker = &mut lock(&self.workers[number]);
            for _ in 0..each {
                let area = self.allocate(&mut worker.rng);
                worker.live.push(area);
            }
            (0..each * CHURN).for_each(|_| self.replace(worker));
        };
        let (filled, ()) = workers::run(self.workers.len(), work, all_done).expect("threads");
        assert!(filled.iter().all(Result::is_ok), "no request is refused");
    }

    /// Lets all threads work at once for so long.
    fn play(&self, window: Duration) -> Played {
        let stop = &AtomicBool::new(false);
        let work = |number: usize| self.pairs(&mut lock(&self.workers[number]), stop);
        let time = |_: &_| {
            let start = Instant::now();
            std::thread::sleep(window);
            // Relaxed: publishes nothing; the threads are joined.
            stop.store(true, Ordering::Relaxed);
            start.elapsed()
        };
        let (done, time) = workers::run(self.workers.len(), work, time).expect("threads");
        let pairs = done.into_iter().map(|done| done.expect("no request is refused")).sum();
        Played { pairs, time }
    }

    fn pairs(&self, worker: &mut Worker, stop: &AtomicBool) -> u64 {
        let mut pairs = 0;
        while !stop.load(Ordering::Relaxed) {
            match self.scene {
                Scene::W1 => self.free(self.allocate(&mut worker.rng)),
                Scene::W5 => self.replace(worker),
            }
            pairs += 1;
        }
        pairs
    }

    #[inline]
    fn replace(&self, worker: &mut Worker) {
        let slot = worker.rng.below(worker.live.len() as u64) as usize;
        self.free(worker.live[slot]);
        worker.live[slot] = self.allocate(&mut worker.rng);
    }

    #[inline]
    fn allocate(&self, rng: &mut Rng) -> usize {
        self.space.raw().alloc(&self.scene.request(rng)).expect("space for every scene")
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
    use crate::scene::LIVE_AREAS;

    fn limits() -> Limits {
        let window = Duration::from_millis(20);
        Limits { rounds: 1, window, live: LIVE_AREAS, options: SpaceOptions::default() }
    }

    /// Measures in longer and longer windows, until `is_enough`: on a busy machine no thread may
    /// run in a short one.
    fn longer<T: std::fmt::Debug>(
        limits: &Limits,
        mut measure: impl FnMut(&Limits) -> T,
        is_enough: impl Fn(&T) -> bool,
    ) -> T {
        let windows = (0..10).map(|power| limits.window * (1 << power));
        let mut measured = windows.map(|window| measure(&Limits { window, ..*limits }));
        measured.find(|it| is_enough(it)).expect("a thread runs in ten seconds")
    }

    #[test]
    fn every_number_of_threads_makes_pairs() {
        for scene in Scene::ALL {
            for drain in Drain::ALL {
                let rows = longer(
                    &limits(),
                    |limits| run(scene, drain, &[1, 3], limits, &|_| {}),
                    |rows| rows.iter().all(|row| row.mpairs_per_s > 0.0),
                );
                assert_eq!(rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, 3]);
                assert!(rows.iter().all(|row| row.drain == drain), "{rows:?}");
                assert_eq!(rows[0].ratio, 1.0);
            }
        }
    }

    #[test]
    fn live_sets_are_kept_from_window_to_window() {
        let limits = limits();
        let stage = Stage::<Drained<FutexLock, Cpus>>::new(Scene::W5, 8, &limits);
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
