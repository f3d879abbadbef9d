//! F4: a purge that holds no lock from its beginning to its end (2016).
//!
//! ```text
//!   P0   purge ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  one spin lock: nothing else runs on this CPU, others wait for an area
//!        timer        │······· late ·········►│ wake-up
//!   P1   purge ▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░▓░  taken and dropped for each area
//!        timer        │►│ wake-up
//! ```

use super::judge::least;
use super::measure::sampled;
use super::{Claim, Clock, Effort, Figure, Measured, Outcome, Progress, Sample, Table, Unit};
use crate::clock::cpu_time;
use crate::design::{Design, Setup};
use crate::designs::Name;
use crate::lock::{NeverSleep, wakeups};
use crate::stats::median;
use crate::table::figure;
use crate::workload::guarded;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

const DESIGNS: [Name; 7] = [
    Name::BusyListP0,
    Name::BusyList,
    Name::AugmentedP0,
    Name::AugmentedP1,
    Name::Augmented,
    Name::Nodes,
    Name::Vmalloc,
];

/// Pages of a buffer: 8 KiB.
const PAGES: u64 = 2;
/// From one wake-up to the next: many in the time of a purge, so that none is missed.
const PERIOD: Duration = Duration::from_micros(50);
/// Purges before the measurement: designs with lists have two of each, which take turns.
const WARM_UP: u64 = 2;
/// Allocations that take no longer than this are as good as none that waited.
const SHORT: Duration = Duration::from_micros(5);
/// The least by which the worst case fell.
const BAR: f64 = 4.0;
const PUBLISHED: &str = "1177–2886 → 284–321 µs, 4–9×";

fn least_rounds(effort: Effort) -> usize {
    effort.choose(3, 5)
}

/// The CPU time that a purging thread may lose meanwhile: to interrupts, and to clocks that differ.
const LOSS: Duration = Duration::from_micros(100);
/// Purges without loss that make a round: less are no median.
const ENOUGH: usize = 2;

/// Purges of a run in which wake-ups are measured.
fn purges(effort: Effort) -> u64 {
    effort.choose(3, 10)
}

/// Purges of a run during which allocations are.
fn stalling_purges(effort: Effort) -> usize {
    effort.choose(4, 10)
}

pub(super) fn steps(effort: Effort) -> u64 {
    (DESIGNS.len() * least_rounds(effort)) as u64
}

/// The results of a run on one design, in microseconds.
#[derive(Clone, Debug, Default)]
struct Shown {
    worst_wake_up: f64,
    mean_wake_up: f64,
    /// Others used the CPUs.
    disturbed: bool,
    /// During each purge.
    stalls: Vec<Stall>,
    pairs: f64,
    longest_hold: f64,
}

/// The worst allocation during a purge.
#[derive(Clone, Copy, Debug)]
struct Stall {
    micros: f64,
    /// One of both threads lost its CPU. An allocation that waits for a purge that does not run
    /// waits for the machine, and a thread that does not run meets no purge.
    disturbed: bool,
}

impl Stall {
    fn during(purge: &Freed, long: &[Long]) -> Self {
        let met = || long.iter().filter(|it| it.start < purge.end && purge.start < it.end);
        let took = met().map(|it| it.took).max().unwrap_or_default().max(SHORT);
        let lost = purge.lost + met().map(|it| it.lost).sum::<Duration>();
        Self { micros: took.as_secs_f64() * 1e6, disturbed: lost > LOSS }
    }
}

type Part = fn(&Shown) -> f64;

pub(super) fn run(effort: Effort, progress: &Progress) -> Outcome {
    let _as_kernels_do = NeverSleep::new();
    let setup = calibrated();
    let measure = |name| {
        let shown = watch(name, &setup, effort);
        progress.step();
        shown
    };
    let are_settled = |rounds: &[_]| claims(rounds).iter().all(|claim| claim.verdict.is_settled());
    let rounds = effort.patience(least_rounds(effort)).rounds(|| DESIGNS.map(measure), are_settled);
    let claims = claims(&rounds);
    Outcome::new(Figure::F4, effort, claims, vec![Runs(&rounds).table()], &NOTES)
}

fn claims(rounds: &[[Shown; DESIGNS.len()]]) -> Vec<Claim> {
    COMPARED.into_iter().flat_map(|(before, after)| Runs(rounds).claims(before, after)).collect()
}

/// Which designs are compared: P0 with P1 over the busy list, with P1 and P2 over the tree, and
/// with ours.
const COMPARED: [(usize, usize); 4] = [(0, 1), (2, 3), (2, 4), (2, 6)];

/// All rounds.
struct Runs<'a>(&'a [[Shown; DESIGNS.len()]]);

/// The median of purges without loss; where there are too few, of all.
fn stall(stalls: &[Stall]) -> Sample {
    let quiet: Vec<f64> = stalls.iter().filter(|stall| !stall.disturbed).map(|stall| stall.micros).collect();
    if quiet.len() >= ENOUGH {
        return Sample { value: median(&quiet), disturbed: false };
    }
    let all: Vec<f64> = stalls.iter().map(|stall| stall.micros).collect();
    Sample { value: median(&all), disturbed: true }
}

impl Runs<'_> {
    fn all(&self, design: usize, of: Part) -> impl Iterator<Item = f64> {
        self.0.iter().map(move |round| of(&round[design]))
    }

    fn middle(&self, design: usize, of: Part) -> f64 {
        median(&self.all(design, of).collect::<Vec<_>>())
    }

    /// Returns the worst wake-up of each run.
    fn wake_ups(&self, design: usize) -> Vec<Sample> {
        let sample = |shown: &Shown| Sample { value: shown.worst_wake_up, disturbed: shown.disturbed };
        self.0.iter().map(|round| sample(&round[design])).collect()
    }

    /// Returns the worst allocation during a purge: all purges of all runs, in order.
    fn stalls(&self, design: usize) -> Vec<f64> {
        let mut all: Vec<f64> =
            self.0.iter().flat_map(|round| &round[design].stalls).map(|stall| stall.micros).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn claims(&self, before: usize, after: usize) -> [Claim; 2] {
        let published = if DESIGNS[after] == Name::Vmalloc { "(ours)" } else { PUBLISHED };
        let claim = |what, samples: &dyn Fn(usize) -> Vec<Sample>, clock, middle| {
            let what = format!("{what}: {} → {}", DESIGNS[before].as_str(), DESIGNS[after].as_str());
            let (before, after) = (samples(before), samples(after));
            Measured { what, published, before, after, unit: "µs", clock, middle }
                .claim(Unit::Times, Some(BAR))
        };
        // Other work of the machine makes a worst case worse, never better: the least is the
        // nearest to the design's.
        let wake_ups = claim("worst wake-up", &|design| self.wake_ups(design), Clock::Own, least);
        let stalls = |design: usize| self.0.iter().map(|round| stall(&round[design].stalls)).collect();
        [wake_ups, claim("worst allocation", &stalls, Clock::Wall, median)]
    }

    fn table(&self) -> Table {
        let row = |design: usize| {
            let stalls = self.stalls(design);
            let quarter =
                |quarters: usize| stalls.get(stalls.len() * quarters / 4).copied().unwrap_or(f64::NAN);
            let cells = [
                self.middle(design, |it| it.worst_wake_up),
                least(&self.all(design, |it| it.worst_wake_up).collect::<Vec<_>>()),
                self.middle(design, |it| it.mean_wake_up),
                quarter(1),
                quarter(2),
                quarter(3),
                self.middle(design, |it| it.pairs),
                self.middle(design, |it| it.longest_hold),
            ];
            std::iter::once(DESIGNS[design].as_str().to_owned()).chain(cells.map(figure)).collect()
        };
        let head = [
            "µs",
            "worst wake-up",
            "(least)",
            "mean",
            "worst allocation: 1/4",
            "half",
            "3/4 of purges",
            "million pairs/s",
            "longest hold, areas",
        ];
        let title = "Wake-ups: the worst of a run, median of the runs and least; allocations: the worst during a purge";
        Table::new(title, &head, (0..DESIGNS.len()).map(row).collect())
    }
}

/// How long a purge under one lock is to last: what was seen there.
const LENGTH: Duration = Duration::from_millis(2);

/// The set-up in which it does. At Linux's threshold it lasts some 50 µs here, for an area goes
/// back in a twentieth of what it took then, and the machine's own delays are as long.
fn calibrated() -> Setup {
    let areas = 100_000;
    let setup = Setup::of_this_machine().lazy_max(2 * areas * (PAGES + 1));
    let design = Name::AugmentedP0.build(&setup);
    for _ in 0..areas {
        let start = design.alloc(&guarded(PAGES)).expect("space");
        design.free(start).expect("an area");
    }
    let start = cpu_time();
    design.settle();
    let each = (cpu_time() - start).as_secs_f64() / areas as f64;
    setup.lazy_max((LENGTH.as_secs_f64() / each) as u64 * (PAGES + 1))
}

/// Runs one thread for the wake-ups, and two for the allocations.
fn watch(name: Name, setup: &Setup, effort: Effort) -> Shown {
    let share = setup.lazy_max_pages / (PAGES + 1);
    let design = name.build(setup);
    // Lists have grown to what purges take when the measurement begins.
    (0..WARM_UP * share).for_each(|_| pair(&*design));
    let ((late, pairs), disturbed) = sampled(|| wake_ups(&*design, purges(effort) * share));
    let longest_hold = design.counts().longest_hold_areas as f64;
    drop(design);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let stalls = stalls(&*name.build(setup), stalling_purges(effort), share as usize);
    Shown {
        worst_wake_up: late.iter().copied().max().map_or(0.0, micros),
        mean_wake_up: late.iter().copied().map(micros).sum::<f64>() / late.len().max(1) as f64,
        disturbed,
        stalls,
        pairs,
        longest_hold,
    }
}

/// How late wake-ups are during so many pairs, and millions of pairs a second.
fn wake_ups(design: &dyn Design, count: u64) -> (Vec<Duration>, f64) {
    let start = cpu_time();
    wakeups::arm(PERIOD);
    (0..count).for_each(|_| pair(design));
    (wakeups::disarm(), count as f64 / (cpu_time() - start).as_secs_f64() / 1e6)
}

fn pair(design: &dyn Design) {
    let start = design.alloc(&guarded(PAGES)).expect("space");
    design.free(start).expect("an area");
}

/// The longest allocation during each of so many purges. One thread does nothing but allocate, so
/// it meets every purge; another frees what it gets, and with that purges.
fn stalls(design: &dyn Design, purges: usize, share: usize) -> Vec<Stall> {
    // As much as becomes lazy until the next purge, so that neither thread waits for the other
    // during one.
    let (sender, receiver) = mpsc::sync_channel(share);
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let allocator = scope.spawn(move || allocate(design, &sender, is_over));
        let purges = free(design, &receiver, WARM_UP as usize + purges, share);
        is_over.store(true, Relaxed);
        receiver.iter().for_each(|area| design.free(area).expect("an area"));
        let long = allocator.join().expect("no panic");
        let worst = |purge: &Freed| Stall::during(purge, &long);
        purges[WARM_UP as usize..].iter().map(worst).collect()
    })
}

/// An allocation that was not short, or a wait for room in the ring.
struct Long {
    start: Instant,
    end: Instant,
    /// By the time that its thread ran: a thread that waits for a lock here spins.
    took: Duration,
    /// The part in which its thread did not run.
    lost: Duration,
}

/// The clocks of a thread: on the wall, and its own.
#[derive(Clone, Copy)]
struct Moment {
    wall: Instant,
    ran: Duration,
}

impl Moment {
    fn now() -> Self {
        Self { wall: Instant::now(), ran: cpu_time() }
    }

    /// Adds what happened since then, if it was not short; the next moment.
    fn note(self, long: &mut Vec<Long>) -> Self {
        let now = Self::now();
        let (passed, took) = (now.wall - self.wall, now.ran - self.ran);
        if passed > SHORT {
            let lost = passed.saturating_sub(took);
            long.push(Long { start: self.wall, end: now.wall, took, lost });
        }
        now
    }
}

/// Allocates until it is over.
fn allocate(design: &dyn Design, sender: &SyncSender<u64>, is_over: &AtomicBool) -> Vec<Long> {
    let (mut long, mut last) = (Vec::new(), Moment::now());
    while !is_over.load(Relaxed) {
        let area = design.alloc(&guarded(PAGES)).expect("space");
        last = last.note(&mut long);
        if let Err(TrySendError::Full(mut area)) = sender.try_send(area) {
            // Without sleeping: to be woken would be part of what is measured.
            while let Err(TrySendError::Full(again)) = sender.try_send(area) {
                area = again;
                std::hint::spin_loop();
            }
            // A thread that waits for room meets no purge.
            let now = Moment::now();
            long.push(Long {
                start: last.wall,
                end: now.wall,
                took: Duration::ZERO,
                lost: now.wall - last.wall,
            });
            last = now;
        }
    }
    long
}

/// A free, of which those that purge are long.
struct Freed {
    start: Instant,
    end: Instant,
    /// The part in which the thread did not run.
    lost: Duration,
}

/// Frees what comes, in as many rounds; the longest free of each. A round has more frees than lead
/// to a purge, so that was one.
fn free(design: &dyn Design, receiver: &Receiver<u64>, rounds: usize, share: usize) -> Vec<Freed> {
    // Without sleeping: the sender would have to wake this thread.
    let tries = || std::iter::repeat_with(|| receiver.try_recv());
    let areas = || tries().take_while(|it| *it != Err(TryRecvError::Disconnected)).flatten();
    let round = |_| {
        let frees = areas().take(share + share / 4).map(|area| {
            let (start, ran) = (Instant::now(), cpu_time());
            design.free(area).expect("an area");
            let (ran, end) = (cpu_time() - ran, Instant::now());
            Freed { start, end, lost: (end - start).saturating_sub(ran) }
        });
        frees.max_by_key(|it| it.end - it.start).expect("areas come until it is over")
    };
    (0..rounds).map(round).collect()
}

const NOTES: [&str; 3] = [
    "8 KiB buffers with guard pages. The threshold is such that a purge of the tree under one lock lasts 2 ms, as purges did on the machine of the publication; \
     with Linux's threshold it would last no longer than this machine's own delays. Purges are run by the frees that reach it.",
    "Wake-ups: one thread. A program can be preempted with a lock held, a kernel that spins can not: a timer of the thread's own fires every 50 µs that \
     it runs, and is answered as soon as it holds no spin lock. Locks that sleep (purges of nodes and of ours have one) delay no wake-up. \
     Claims are about the least of the runs, before and after: what else the machine does makes a worst case worse, never better.",
    "Allocations: one thread allocates all the time, another frees what it gets, and so purges; what counts is the longest allocation during each purge, by the time \
     that its thread runs, which it also does while it waits. When the machine \
     takes the CPU from a thread that holds a lock, a thread that waits for it runs on. So claims are about the median of the purges of a run during which neither thread lost its CPU; \
     the table has all, and its upper quarter is the machine's.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_disturbed_where_one_of_both_threads_did_not_run() {
        let (began, micros) = (Instant::now(), Duration::from_micros);
        let purge =
            |lost| Freed { start: began + micros(1000), end: began + micros(3000), lost: micros(lost) };
        let long = |from, to, took| {
            let lost = micros(to - from).saturating_sub(micros(took));
            Long { start: began + micros(from), end: began + micros(to), took: micros(took), lost }
        };
        let told = |purge: &Freed, long: &[Long]| {
            let stall = Stall::during(purge, long);
            (stall.micros.round(), stall.disturbed)
        };
        assert_eq!(told(&purge(0), &[]), (5.0, false), "all allocations were short");
        let met = [long(900, 2900, 2000), long(2950, 2990, 40)];
        assert_eq!(told(&purge(0), &met), (2000.0, false));
        assert_eq!(told(&purge(500), &met), (2000.0, true), "the purge stood still");
        assert_eq!(told(&purge(0), &[long(500, 2500, 10)]), (10.0, true), "the allocating thread did");
        assert_eq!(
            told(&purge(0), &[long(10, 900, 0), long(3100, 9000, 70)]),
            (5.0, false),
            "at another time"
        );
    }

    #[test]
    fn purges_without_loss_make_a_sample_if_there_are_enough() {
        let stalls = |list: &[(f64, bool)]| {
            let stalls: Vec<_> =
                list.iter().map(|&(micros, disturbed)| Stall { micros, disturbed }).collect();
            let sample = stall(&stalls);
            (sample.value, sample.disturbed)
        };
        assert_eq!(stalls(&[(1.0, false), (3.0, false), (900.0, true)]), (2.0, false));
        assert_eq!(stalls(&[(1.0, false), (3.0, true), (900.0, true)]), (3.0, true));
    }
}
