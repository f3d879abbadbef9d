//! One space and many threads: pairs a second of all together, and how often a lock had to be
//! waited for; with callers that purge by themselves, and with a thread that drains.
//!
//! Threads work for a while of wall time, all at once, and the pairs of all are added up. Numbers
//! of threads take turns, a window each, so that whatever else the machine does hits all of them
//! alike. Locks are counted in a pass of its own, which is not timed.
//!
//! In a relay one CPU allocates, another frees, a bounded ring between:
//!
//! ```text
//!   CPU 0   allocate ──► ring ──► free   CPU 1
//!   CPU 2   allocate ──► ring ──► free   CPU 3
//! ```
//!
//! There every free is of an area that another CPU asked for: the worst case of designs whose areas
//! belong to CPUs. With one thread, that thread fills its ring and empties it in turn: the same
//! calls without another CPU.

use crate::adapter::{Caller, Drained, House};
use crate::counting_lock::{self, CountingLock, Taken};
use crate::pinning::Placement;
use crate::scene::{LIVE_AREAS, Scene};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vmalloc::SpaceOptions;
use vmalloc_kit::null::Cpus;
use vmalloc_kit::rng::Rng;
use vmalloc_kit::stats::median;
use vmalloc_kit::workers::{self, all_done};
use vmalloc_linux::FutexLock;

/// The product's lock, which counts.
type Counted = CountingLock<FutexLock>;

/// Replacements for each area before anything is measured.
const CHURN: usize = 2;
/// Areas in a ring at most: what a queue between two threads usually holds.
const RING: usize = 256;
/// Looks at a ring before a thread lets others run.
const LOOKS: u32 = 64;

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

/// The partners of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Each thread frees what it allocated.
    Own,
    /// One thread allocates, another frees.
    Relay,
}

/// How much is measured, and what becomes of freed areas.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The wall time of a window.
    pub window: Duration,
    /// The settings of the space, but for its guards.
    pub options: SpaceOptions,
    /// The CPUs that threads run on.
    pub placement: Placement,
}

/// The result of one number of threads in one scene.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which scene.
    pub scene: Scene,
    /// The thread that frees.
    pub workload: Workload,
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
    /// Locks taken for a pair.
    pub locks_per_pair: f64,
    /// Of those, how many hundredths had to wait.
    pub waited_percent: f64,
}

/// Plays `scene` with each number of `threads` (in a relay: 1, or even) on a space with the
/// product's locks; ratios are to the first.
///
/// # Panics
/// When the space refuses a request, which it has room for.
pub fn run(
    scene: Scene,
    workload: Workload,
    drain: Drain,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    let contest = match drain {
        Drain::Callers => contest::<Caller<FutexLock, Cpus>, Caller<Counted, Cpus>>,
        Drain::Thread => contest::<Drained<FutexLock, Cpus>, Drained<Counted, Cpus>>,
    };
    let played = contest(scene, workload, threads, limits, progress);
    let first = played.first().map_or(1.0, |(rates, _)| median(rates));
    let row = |(&threads, (rates, counted)): (&usize, &(Vec<f64>, Played))| Row {
        scene,
        workload,
        drain,
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
    threads.iter().zip(&played).map(row).collect()
}

/// Times spaces `H`, and counts the locks of spaces `N`: for each number of threads the pairs a
/// second in every round, and a pass that is not timed.
fn contest<H: House + Sync, N: House + Sync>(
    scene: Scene,
    workload: Workload,
    threads: &[usize],
    limits: &Limits,
    progress: &dyn Fn(&str),
) -> Vec<(Vec<f64>, Played)> {
    let stage = |&count: &_| Stage::<H>::new(scene, workload, count, limits);
    let stages: Vec<_> = threads.iter().map(stage).collect();
    let mut rates = vec![Vec::new(); threads.len()];
    for round in 0..limits.rounds {
        progress(&format!("round {} of {}", round + 1, limits.rounds));
        rates.iter_mut().zip(&stages).for_each(|(rates, stage)| rates.push(stage.play(limits.window).rate()));
    }
    drop(stages);
    progress("counting locks");
    let counted = |&count: &_| Stage::<N>::new(scene, workload, count, limits).play(limits.window);
    rates.into_iter().zip(threads.iter().map(counted)).collect()
}

/// A space, and the areas that each thread has in it.
struct Stage<H> {
    scene: Scene,
    workload: Workload,
    placement: Placement,
    space: H,
    workers: Vec<Mutex<Worker>>,
}

/// The state of a thread between windows.
struct Worker {
    live: Vec<usize>,
    rng: Rng,
    /// Its part in the next window.
    part: Part,
}

/// A part in a window.
enum Part {
    /// Frees what it allocates.
    Own,
    /// Allocates.
    Producer(SyncSender<usize>),
    /// Frees.
    Consumer(Receiver<usize>),
    /// Fills a ring, and empties it.
    Alone,
}

/// The results of a window.
#[derive(Clone, Copy, Debug, Default)]
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
    fn new(scene: Scene, workload: Workload, threads: usize, limits: &Limits) -> Self {
        assert!(
            workload == Workload::Own || threads == 1 || threads.is_multiple_of(2),
            "{threads} threads are no pairs"
        );
        let rng = |seed: usize| Rng::new(seed as u64);
        let worker = |seed| Mutex::new(Worker { live: Vec::new(), rng: rng(seed), part: Part::Own });
        let space = H::open(scene.options(limits.options));
        let workers = (0..threads).map(worker).collect();
        let stage = Self { scene, workload, placement: limits.placement, space, workers };
        if (scene, workload) == (Scene::W5, Workload::Own) {
            stage.fill(LIVE_AREAS / threads);
        }
        stage
    }

    /// Lets each worker make its areas, all at the same time, and replace each a few times.
    fn fill(&self, each: usize) {
        let work = |number: usize| {
            self.placement.place(number);
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

    /// Gives each worker its part in the next window.
    fn deal(&self) {
        if let (Workload::Relay, [alone]) = (self.workload, self.workers.as_slice()) {
            lock(alone).part = Part::Alone;
        } else if self.workload == Workload::Relay {
            for pair in self.workers.chunks_exact(2) {
                let (sender, receiver) = sync_channel(RING);
                lock(&pair[0]).part = Part::Producer(sender);
                lock(&pair[1]).part = Part::Consumer(receiver);
            }
        }
    }

    /// Lets all threads work at once for so long.
    fn play(&self, window: Duration) -> Played {
        self.deal();
        let stop = &AtomicBool::new(false);
        let work = |number: usize| {
            self.placement.place(number);
            counting_lock::take();
            let worker = &mut lock(&self.workers[number]);
            let pairs = match std::mem::replace(&mut worker.part, Part::Own) {
                Part::Own => self.own(worker, stop),
                Part::Producer(ring) => self.produce(&ring, worker, stop),
                Part::Consumer(ring) => self.consume(&ring),
                Part::Alone => self.alone(worker, stop),
            };
            (pairs, counting_lock::take())
        };
        let time = |_: &_| {
            let start = Instant::now();
            std::thread::sleep(window);
            // Relaxed: publishes nothing; the threads are joined.
            stop.store(true, Ordering::Relaxed);
            start.elapsed()
        };
        let (done, time) = workers::run(self.workers.len(), work, time).expect("threads");
        let mut played = Played { time, ..Played::default() };
        for (pairs, taken) in done.into_iter().map(|done| done.expect("no request is refused")) {
            played.pairs += pairs;
            played.taken = played.taken.plus(taken);
        }
        played
    }

    fn own(&self, worker: &mut Worker, stop: &AtomicBool) -> u64 {
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

    /// Allocates until the window ends, and puts each area into a ring as soon as that has room.
    /// Without sleeping: to be woken would be part of what is measured. Counts nothing: what is
    /// freed counts.
    fn produce(&self, ring: &SyncSender<usize>, worker: &mut Worker, stop: &AtomicBool) -> u64 {
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut area = self.allocate(&mut worker.rng);
            while let Err(full) = ring.try_send(area) {
                let TrySendError::Full(again) = full else { panic!("the consumer is gone") };
                area = again;
                look(&mut looks);
            }
        }
        0
    }

    /// Frees what comes until the producer is gone; how many.
    fn consume(&self, ring: &Receiver<usize>) -> u64 {
        let (mut freed, mut looks) = (0, 0);
        loop {
            match ring.try_recv() {
                Ok(area) => {
                    self.free(area);
                    freed += 1;
                }
                Err(TryRecvError::Empty) => look(&mut looks),
                Err(TryRecvError::Disconnected) => return freed,
            }
        }
    }

    /// Fills a ring and empties it until the window ends; how many areas.
    fn alone(&self, worker: &mut Worker, stop: &AtomicBool) -> u64 {
        let ((sender, receiver), mut freed) = (sync_channel(RING), 0);
        while !stop.load(Ordering::Relaxed) {
            while let Ok(()) = sender.try_send(self.allocate(&mut worker.rng)).map_err(|full| {
                let (TrySendError::Full(area) | TrySendError::Disconnected(area)) = full;
                self.free(area);
            }) {}
            receiver.try_iter().for_each(|area| self.free(area));
            freed += RING as u64;
        }
        freed
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

/// Waits a little for the other thread; lets it run now and then, for it may have no CPU.
fn look(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Never contended: each worker has one thread.
fn lock(worker: &Mutex<Worker>) -> std::sync::MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(placement: Placement) -> Limits {
        let window = Duration::from_millis(20);
        Limits { rounds: 1, window, options: SpaceOptions::default(), placement }
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
    fn every_number_of_threads_makes_pairs_under_locks() {
        let limits = limits(Placement::Pinned);
        for scene in Scene::ALL {
            for (workload, drain, many) in [
                (Workload::Own, Drain::Callers, 3),
                (Workload::Own, Drain::Thread, 3),
                (Workload::Relay, Drain::Thread, 2),
            ] {
                let rows = longer(
                    &limits,
                    |limits| run(scene, workload, drain, &[1, many], limits, &|_| {}),
                    |rows| rows.iter().all(|row| row.mpairs_per_s > 0.0 && row.locks_per_pair > 0.0),
                );
                assert_eq!(rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, many]);
                assert!(rows.iter().all(|row| row.drain == drain), "{rows:?}");
                assert_eq!(rows[0].ratio, 1.0);
                if drain == Drain::Callers {
                    assert_eq!(rows[0].waited_percent, 0.0);
                }
            }
        }
    }

    #[test]
    fn live_sets_are_kept_from_window_to_window() {
        let limits = limits(Placement::Anywhere);
        let stage = Stage::<Drained<FutexLock, Cpus>>::new(Scene::W5, Workload::Own, 8, &limits);
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

    #[test]
    fn areas_go_through_rings_and_are_all_freed() {
        let limits = limits(Placement::Anywhere);
        for (scene, threads) in Scene::ALL.into_iter().flat_map(|scene| [1, 2, 6].map(|count| (scene, count)))
        {
            let stage = Stage::<Drained<FutexLock, Cpus>>::new(scene, Workload::Relay, threads, &limits);
            longer(&limits, |limits| stage.play(limits.window), |played| played.pairs > 0);
            stage.space.purge().expect("this platform refuses nothing");
            assert_eq!(stage.space.stats().busy_areas, 0);
            stage.space.verify().expect("a space that is whole");
        }
    }
}
