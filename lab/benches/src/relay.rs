//! Producers and consumers: one CPU allocates, another frees, a bounded ring between.
//!
//! ```text
//!   CPU 0   allocate ──► ring ──► free   CPU 1
//!   CPU 2   allocate ──► ring ──► free   CPU 3
//! ```
//!
//! Every free is of an area that another CPU asked for: the worst case of designs whose areas
//! belong to CPUs. With one thread, that thread fills its ring and empties it in turn: the same
//! calls without another CPU.

use crate::adapter::{Drained, House};
use crate::counting_lock::{self, Taken};
use crate::scene::Scene;
use crate::threads::{Counted, Drain, Limits, Row, Workload};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Instant;
use vmalloc_kit::null::Cpus;
use vmalloc_kit::rng::Rng;
use vmalloc_kit::workers;
use vmalloc_linux::FutexLock;

/// Areas in a ring at most: what a queue between two threads usually holds.
const RING: usize = 256;
/// Looks at a ring before a thread lets others run.
const LOOKS: u32 = 64;

/// Plays areas of `scene` through rings with each number of `threads`, which are 1 or even; a
/// thread of the space's own drains.
///
/// # Panics
/// When the space refuses a request, which it has room for.
pub fn run(scene: Scene, threads: &[usize], limits: &Limits) -> Vec<Row> {
    let mut rates = vec![Vec::new(); threads.len()];
    let stages: Vec<_> =
        threads.iter().map(|&count| Stage::<Drained<FutexLock, Cpus>>::new(scene, count, limits)).collect();
    for _ in 0..limits.rounds {
        rates.iter_mut().zip(&stages).for_each(|(rates, stage)| rates.push(stage.play(limits).rate));
    }
    drop(stages);
    let count = |&count: &usize| {
        let played = Stage::<Drained<Counted, Cpus>>::new(scene, count, limits).play(limits);
        (played.areas, played.taken)
    };
    let counted: Vec<_> = threads.iter().map(count).collect();
    let rows = Row::all(scene, Workload::Relay, threads, &rates, &counted);
    rows.into_iter().map(|row| Row { drain: Drain::Thread, ..row }).collect()
}

/// A space and its rings.
struct Stage<H> {
    scene: Scene,
    space: H,
    threads: usize,
}

/// The results of a window.
#[derive(Clone, Copy, Debug)]
struct Played {
    areas: u64,
    rate: f64,
    taken: Taken,
}

/// A part in a window.
enum Part {
    /// Allocates.
    Producer(SyncSender<usize>),
    /// Frees.
    Consumer(Receiver<usize>),
    /// Does both.
    Alone,
}

/// The consumer panicked; that is told when it is joined.
struct ConsumerGone;

impl<H: House + Sync> Stage<H> {
    fn new(scene: Scene, threads: usize, limits: &Limits) -> Self {
        assert!(threads == 1 || threads.is_multiple_of(2), "{threads} threads are no pairs");
        Self { scene, space: H::open(scene.options(limits.options)), threads }
    }

    fn parts(&self) -> Vec<Mutex<Option<Part>>> {
        if self.threads == 1 {
            return vec![Mutex::new(Some(Part::Alone))];
        }
        let pair = |_| {
            let (sender, receiver) = sync_channel(RING);
            [Part::Producer(sender), Part::Consumer(receiver)].map(|part| Mutex::new(Some(part)))
        };
        (0..self.threads / 2).flat_map(pair).collect()
    }

    /// Lets all threads work at once for a window. All that was allocated is freed at its end.
    fn play(&self, limits: &Limits) -> Played {
        let (stop, parts) = (&AtomicBool::new(false), &self.parts());
        let work = |number: usize| {
            limits.placement.place(number);
            counting_lock::take();
            let part = parts[number].lock().ok().and_then(|mut part| part.take());
            let areas = match part.expect("a part for each thread") {
                Part::Producer(ring) => self.produce(&ring, number, stop),
                Part::Consumer(ring) => self.consume(&ring),
                Part::Alone => self.alone(stop),
            };
            (areas, counting_lock::take())
        };
        let time = |_: &_| {
            let start = Instant::now();
            std::thread::sleep(limits.window);
            // Relaxed: publishes nothing; the threads are joined.
            stop.store(true, Ordering::Relaxed);
            start.elapsed()
        };
        let (done, time) = workers::run(self.threads, work, time).expect("threads");
        let (mut areas, mut taken) = (0, Taken::default());
        for (freed, locks) in done.into_iter().map(|done| done.expect("no request is refused")) {
            areas += freed;
            taken = taken.plus(locks);
        }
        Played { areas, rate: areas as f64 / time.as_secs_f64(), taken }
    }

    /// Allocates until the window ends. Counts nothing: what is freed counts.
    fn produce(&self, ring: &SyncSender<usize>, number: usize, stop: &AtomicBool) -> u64 {
        let mut rng = Rng::new(number as u64);
        while !stop.load(Ordering::Relaxed) {
            if self.send(ring, self.allocate(&mut rng)).is_err() {
                break;
            }
        }
        0
    }

    /// Puts an area into a ring as soon as that has room. Without sleeping: to be woken would be
    /// part of what is measured.
    fn send(&self, ring: &SyncSender<usize>, mut area: usize) -> Result<(), ConsumerGone> {
        let mut looks = 0;
        loop {
            match ring.try_send(area) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(again)) => area = again,
                Err(TrySendError::Disconnected(area)) => {
                    self.free(area);
                    return Err(ConsumerGone);
                }
            }
            look(&mut looks);
        }
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
    fn alone(&self, stop: &AtomicBool) -> u64 {
        let (sender, receiver) = sync_channel(RING);
        let (mut rng, mut freed) = (Rng::new(0), 0);
        while !stop.load(Ordering::Relaxed) {
            while sender.try_send(self.allocate(&mut rng)).map_err(|full| self.give_back(full)).is_ok() {}
            receiver.try_iter().for_each(|area| self.free(area));
            freed += RING as u64;
        }
        freed
    }

    /// Frees an area that the ring has no room for.
    fn give_back(&self, full: TrySendError<usize>) {
        let (TrySendError::Full(area) | TrySendError::Disconnected(area)) = full;
        self.free(area);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinning::Placement;
    use std::time::Duration;
    use vmalloc::SpaceOptions;

    fn limits() -> Limits {
        let window = Duration::from_millis(20);
        Limits { rounds: 1, window, options: SpaceOptions::default(), placement: Placement::Anywhere }
    }

    #[test]
    fn areas_go_through_rings_and_are_all_freed() {
        for (scene, threads) in Scene::ALL.into_iter().flat_map(|scene| [1, 2, 6].map(|count| (scene, count)))
        {
            let stage = Stage::<Drained<FutexLock, Cpus>>::new(scene, threads, &limits());
            let played = stage.play(&limits());
            assert!(played.areas > 0 && played.rate > 0.0, "{played:?}");
            stage.space.purge().expect("this platform refuses nothing");
            assert_eq!(stage.space.stats().busy_areas, 0);
            stage.space.verify().expect("a space that is whole");
        }
    }

    #[test]
    fn every_number_of_threads_has_a_row_and_ratios_are_to_the_first() {
        let rows = run(Scene::W1, &[1, 2], &limits());
        assert_eq!(rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, 2]);
        assert!(rows.iter().all(|row| row.mpairs_per_s > 0.0 && row.locks_per_pair > 0.0), "{rows:?}");
        assert_eq!(rows[0].ratio, 1.0);
    }
}
