//! One worker: runs its cases, in its order, and keeps the record.

use super::params::Parameters;
use crate::cases::{Case, Context, PageSize, Refusal};
use crate::machine::Machine;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The state that the workers share.
pub(super) struct Round<'a> {
    /// The space that they run on.
    pub(super) machine: &'a Machine,
    /// The cases that they run, and how often.
    pub(super) parameters: &'a Parameters,
    /// The seed.
    pub(super) seed: u64,
    /// Runs of all workers that are done.
    pub(super) done: AtomicU64,
}

/// Runs all cases of worker number `worker`.
pub(super) fn run(round: &Round<'_>, worker: u64) -> Record {
    let Round { machine, parameters, .. } = *round;
    // The generator mixes its seed: those of neighbours have nothing in common.
    let mut random = Rng::new(Rng::new(round.seed).next_u64() ^ worker);
    let order = order(parameters, &mut random);
    let pages = if parameters.use_huge == 0 { PageSize::Base } else { PageSize::Huge };
    let mut context = Context {
        machine,
        workers: parameters.nr_threads,
        most_held: machine.most_held(parameters.nr_threads).unwrap_or(u64::MAX),
        loops: parameters.test_loop_count,
        nr_pages: parameters.nr_pages,
        pages,
        random,
    };
    let start = clock::tick();
    let times = parameters.test_repeat_count;
    let cases = order.iter().map(|case| repeat(case, &mut context, times, &round.done)).collect();
    Record { worker, cycles: clock::tick().saturating_sub(start), cases }
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
    let mut record =
        CaseRecord { name: case.name, bit: case.bit, loops: context.loops, ..Default::default() };
    for _ in 0..times {
        let start = Instant::now();
        let result = (case.run)(context);
        record.count(result, start.elapsed());
        // Relaxed: nothing is read that it publishes, it is only shown to people.
        done.fetch_add(1, Ordering::Relaxed);
    }
    record
}

impl CaseRecord {
    fn count(&mut self, result: Result<(), Refusal>, time: Duration) {
        match result {
            Ok(()) => self.passed += 1,
            Err(Refusal::Expected) => self.xfailed += 1,
            Err(Refusal::Failed(reason)) => {
                self.failed += 1;
                self.first_failure.get_or_insert(reason);
            }
        }
        self.repeat += 1;
        self.total_nsec = self.total_nsec.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.avg_usec = self.total_nsec / 1000 / self.repeat;
    }
}
