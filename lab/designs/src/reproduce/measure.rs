//! Runs of the five results on one thread and on many, and their medians.

use super::Progress;
use crate::clock::cpu_time;
use crate::cpu;
use crate::design::Setup;
use crate::designs::Name;
use crate::lock::{self, Waits};
use crate::rng::Rng;
use crate::stats::median;
use crate::workers::{self, all_done};
use crate::workload::{self, Case, Size, Stage, Tenants, Timed};
use std::time::{Duration, Instant};

/// The seed of everything: each design sees the same requests.
const SEED: u64 = 0x5eed;

/// The state of a space before a test begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The areas of a machine [after boot](workload::boot), of which some go before loops begin.
    Booted,
    /// [`Tenants`], which come and go.
    LivedIn,
}

/// Runs `work` on a new design.
fn on_stage<R>(name: Name, setup: &Setup, place: Place, work: impl FnOnce(Stage<'_>) -> R) -> R {
    let design = name.build(setup);
    let tenants = (place == Place::LivedIn).then(|| Tenants::move_in(&*design).expect("room for tenants"));
    let stage = Stage {
        design: &*design,
        lazy_max_pages: setup.lazy_max_pages,
        tenants: tenants.as_ref(),
        crowd: workload::Crowd::Alone,
    };
    work(stage)
}

/// One loop of `case`, alone on a new design: its microseconds, and what searches look at in it.
pub(super) fn one_loop(name: Name, setup: &Setup, place: Place, case: &Case, size: Size) -> [f64; 2] {
    on_stage(name, setup, place, |stage| {
        let (mut time, mut looked) = ([Duration::ZERO; 2], [0; 2]);
        let gaps = || workload::boot(stage.design).expect("room for some areas");
        let mut gaps = if place == Place::Booted { gaps() } else { Vec::new() };
        let mut clock = |timed| {
            gaps.drain(..).for_each(|gap| stage.design.free(gap).expect("an area"));
            if timed == Timed::Loops {
                stage.design.settle();
            }
            let nth = usize::from(timed == Timed::Rest);
            (time[nth], looked[nth]) = (cpu_time(), stage.design.counts().looked);
            time[0] = if nth == 0 { cpu_time() } else { time[0] };
        };
        run_case(stage, case, size, SEED, &mut clock);
        let micros = (time[1] - time[0]).as_secs_f64() * 1e6;
        [micros, (looked[1] - looked[0]) as f64].map(|sum| sum / size.loops as f64)
    })
}

/// Seconds of each of `cases` from beginning to end, what they prepare included, one after the
/// other on one new design that is lived in; and what searches look at in all.
pub(super) fn sequence(name: Name, setup: &Setup, cases: &[Case], size: Size) -> (Vec<f64>, u64) {
    on_stage(name, setup, Place::LivedIn, |stage| {
        let before = stage.design.counts().looked;
        let time = |case| {
            let start = cpu_time();
            run_case(stage, case, size, SEED, &mut |_| {});
            (cpu_time() - start).as_secs_f64()
        };
        let seconds = cases.iter().map(time).collect();
        (seconds, stage.design.counts().looked - before)
    })
}

fn run_case(stage: Stage<'_>, case: &Case, size: Size, seed: u64, timed: &mut dyn FnMut(Timed)) {
    case.run(stage, size, seed, timed)
        .unwrap_or_else(|refusal| panic!("{} on {}: {refusal}", case.name, stage.design.name()));
}

/// The time of many threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// Seconds from the start of all to the end of the last.
    pub(super) seconds: f64,
    /// Seconds that all threads together ran.
    pub(super) ran: f64,
    /// Their waits for locks.
    pub(super) waits: Waits,
    /// What their searches look at.
    pub(super) looked: u64,
}

impl Crowd {
    /// The share of the time that threads ran in which they did nothing but wait for a lock, in
    /// hundredths.
    pub(super) fn waited_percent(&self) -> f64 {
        100.0 * self.waits.ran as f64 / 1e9 / self.ran
    }
}

/// Every thread runs all of `cases` on one new design that is lived in, each in an order of its
/// own. If the design has more CPUs than the machine, threads play them in turn.
pub(super) fn shuffled(name: Name, setup: &Setup, cases: &[Case], size: Size, threads: usize) -> Crowd {
    on_stage(name, setup, Place::LivedIn, |stage| {
        let before = stage.design.counts().looked;
        let crowd = if threads > cpu::count() { workload::Crowd::Crowded } else { workload::Crowd::Alone };
        let stage = Stage { crowd, ..stage };
        let work = |thread: usize| {
            let (mut cases, mut rng) = (cases.to_vec(), Rng::new(SEED + thread as u64));
            rng.shuffle(&mut cases);
            if setup.cpus > cpu::count() {
                cpu::play(Some(thread % setup.cpus));
            }
            let began = cpu_time();
            cases.iter().for_each(|case| run_case(stage, case, size, rng.next_u64(), &mut |_| {}));
            (cpu_time() - began, lock::take_waits())
        };
        let began = |finished: &_| {
            let began = Instant::now();
            all_done(finished);
            began.elapsed().as_secs_f64()
        };
        let (done, seconds) = workers::run(threads, work, began).expect("threads");
        let done: Vec<_> = done.into_iter().map(|done| done.expect("no panic")).collect();
        let ran = done.iter().map(|(time, _)| time.as_secs_f64()).sum();
        let waits = done.iter().fold(Waits::default(), |sum, (_, waits)| sum.plus(*waits));
        Crowd { seconds, ran, waits, looked: stage.design.counts().looked - before }
    })
}

/// Measures so many designs in each of so many rounds.
pub(super) fn rounds<T>(
    designs: usize,
    rounds: usize,
    progress: &Progress,
    mut value: impl FnMut(usize) -> T,
) -> Vec<Vec<T>> {
    let mut one = |index| {
        let value = value(index);
        progress.step();
        value
    };
    (0..rounds).map(|_| (0..designs).map(&mut one).collect()).collect()
}

/// Returns the median of each item over all rounds, in each of which every item is measured once:
/// what disturbs the machine meets all.
pub(super) fn medians<T>(rounds: &[Vec<T>], of: impl Fn(&T) -> f64) -> Vec<f64> {
    let middle = |item: usize| median(&rounds.iter().map(|round| of(&round[item])).collect::<Vec<_>>());
    (0..rounds.first().map_or(0, Vec::len)).map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::CASES;

    #[test]
    fn a_median_is_taken_of_each_item_by_itself() {
        let round = |by: f64| vec![10.0 + by, 20.0 + by];
        assert_eq!(medians(&[round(3.0), round(1.0), round(2.0)], |value| *value), [12.0, 22.0]);
    }

    #[test]
    fn threads_count_their_locks() {
        let setup = Setup::with_cpus(2).lazy_max(512);
        let crowd = shuffled(Name::Vmalloc, &setup, &CASES[..1], Size::loops(1000), 3);
        assert!(crowd.waits.locks >= 3 * 2 * 1000, "{crowd:?}");
        assert!(crowd.seconds > 0.0 && (0.0..=100.0).contains(&crowd.waited_percent()), "{crowd:?}");
    }
}
