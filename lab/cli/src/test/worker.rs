//! One worker: runs its cases, in its order, and keeps the record.

use super::params::Parameters;
use crate::cases::{Case, Context, PageSize, Refusal};
use crate::machine::Machine;
use crate::random;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vmalloc_lab::clock;
use vmalloc_lab::rng::Rng;

/// The record of a worker.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// Its number.
    pub(crate) worker: u64,
    /// The cycles of all its cases together.
    pub(crate) cycles: u64,
    /// Its cases, in the order in which it ran them.
    pub(crate) cases: Vec<CaseRecord>,
}

/// The results of one case.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CaseRecord {
    /// The case.
    pub(crate) name: &'static str,
    /// Its bit.
    pub(crate) bit: u64,
    /// Runs that went through.
    pub(crate) passed: u64,
    /// Runs that did not, and should have.
    pub(crate) failed: u64,
    /// Runs that did not, as expected.
    pub(crate) xfailed: u64,
    /// Runs that were cut short when the time was over.
    pub(crate) cut: u64,
    /// Runs.
    pub(crate) repeat: u64,
    /// Loops of a run.
    pub(crate) loops: u64,
    /// Microseconds of a run, on average.
    pub(crate) avg_usec: u64,
    /// Nanoseconds of all runs.
    pub(crate) total_nsec: u64,
    /// The reason of the first failed run.
    pub(crate) first_failure: Option<String>,
}

/// The state that the workers of a round share.
pub(super) struct Round<'a> {
    /// The space that they run on.
    pub(super) machine: &'a Machine,
    /// The cases that they run, and how often.
    pub(super) parameters: &'a Parameters,
    /// The seed of this round.
    pub(super) seed: u64,
    /// Runs of all workers that are done.
    pub(super) done: AtomicU64,
    /// Set when the time is over.
    pub(super) stop: AtomicBool,
}

/// Runs all cases of worker number `worker`.
pub(super) fn run(round: &Round<'_>, worker: u64) -> Record {
    let Round { machine, parameters, .. } = *round;
    let mut random = random::stream(round.seed, worker);
    let order = order(parameters, &mut random);
    let pages = if parameters.use_huge == 0 { PageSize::Base } else { PageSize::Huge };
    let mut context = Context {
        machine,
        workers: parameters.nr_threads,
        most_held: machine.most_held(parameters.nr_threads).map_or(u64::MAX, |most| most.areas),
        loops: parameters.test_loop_count,
        nr_pages: parameters.nr_pages,
        pages,
        random,
        stop: &round.stop,
    };
    let start = clock::tick();
    let times = parameters.runs_a_round();
    let cases = order.iter().map(|case| repeat(case, &mut context, times, &round.done)).collect();
    Record { worker, cycles: clock::tick().saturating_sub(start), cases }
}

impl Record {
    /// Adds what the same worker did in another round.
    pub(super) fn add(&mut self, other: &Self) {
        self.cycles = self.cycles.saturating_add(other.cycles);
        for case in &mut self.cases {
            let same = other.cases.iter().find(|other| other.bit == case.bit);
            same.into_iter().for_each(|same| case.add(same));
        }
    }
}

/// The cases as this worker runs them: in the order of their bits, or in one of its own.
fn order(parameters: &Parameters, random: &mut Rng) -> Vec<&'static Case> {
    let mut cases: Vec<_> = parameters.cases().collect();
    if parameters.sequential_test_order == 0 {
        random.shuffle(&mut cases);
    }
    cases
}

fn repeat(case: &Case, context: &mut Context<'_>, times: u64, done: &AtomicU64) -> CaseRecord {
    let mut record = CaseRecord::new(case, context.loops);
    let stop = context.stop;
    // Relaxed, here and below: nothing is read that the flag publishes, and what is done is only
    // shown to people.
    for _ in 0..times {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        let result = (case.run)(context);
        let time = start.elapsed();
        if stop.load(Ordering::Relaxed) {
            record.count_cut(result);
        } else {
            record.count(result, time);
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    record
}

impl CaseRecord {
    fn new(case: &Case, loops: u64) -> Self {
        Self { name: case.name, bit: case.bit, loops, ..Self::default() }
    }

    fn count(&mut self, result: Result<(), Refusal>, time: Duration) {
        match result {
            Ok(()) => self.passed += 1,
            Err(Refusal::Expected) => self.xfailed += 1,
            Err(Refusal::Failed(reason)) => self.count_failed(reason),
        }
        self.repeat += 1;
        self.total_nsec = self.total_nsec.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.average();
    }

    /// Counts a run that the end of the time may have cut short: how long it took says nothing.
    fn count_cut(&mut self, result: Result<(), Refusal>) {
        match result {
            Ok(()) | Err(Refusal::Expected) => self.cut += 1,
            Err(Refusal::Failed(reason)) => self.count_failed(reason),
        }
    }

    fn count_failed(&mut self, reason: String) {
        self.failed += 1;
        self.first_failure.get_or_insert(reason);
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.xfailed += other.xfailed;
        self.cut += other.cut;
        self.repeat += other.repeat;
        self.total_nsec = self.total_nsec.saturating_add(other.total_nsec);
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
        self.average();
    }

    fn average(&mut self) {
        self.avg_usec = self.total_nsec / 1000 / self.repeat.max(1);
    }
}
