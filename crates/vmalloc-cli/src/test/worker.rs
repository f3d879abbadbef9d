//! One worker: runs its cases, in its order, and keeps the record.

use super::params::Parameters;
use crate::cases::{Case, Context, PageSize, Refusal};
use crate::clock;
use crate::machine::Machine;
use crate::random::Random;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a worker did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// Its number.
    pub(crate) worker: u64,
    /// What all its cases took together.
    pub(crate) cycles: u64,
    /// Its cases, in the order in which it ran them.
    pub(crate) cases: Vec<CaseRecord>,
}

/// What became of one case.
#[derive(Clone, Debug, Serialize)]
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
    /// What the first failed run ran into.
    pub(crate) first_failure: Option<String>,
}

/// Runs all cases of worker number `worker`; `done` counts runs of all workers.
pub(super) fn run(
    machine: &Machine,
    parameters: &Parameters,
    seed: u64,
    worker: u64,
    done: &AtomicU64,
) -> Record {
    let mut random = Random::new(seed, worker);
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
    };
    let start = clock::cycles();
    let cases =
        order.iter().map(|case| repeat(case, &mut context, parameters.test_repeat_count, done)).collect();
    Record { worker, cycles: clock::cycles().saturating_sub(start), cases }
}

/// The cases as this worker runs them: in the order of their bits, or in one of its own.
fn order(parameters: &Parameters, random: &mut Random) -> Vec<&'static Case> {
    let mut cases: Vec<_> = parameters.cases().collect();
    if parameters.sequential_test_order == 0 {
        random.shuffle(&mut cases);
    }
    cases
}

fn repeat(case: &Case, context: &mut Context<'_>, times: u64, done: &AtomicU64) -> CaseRecord {
    let mut record = CaseRecord::new(case, times, context.loops);
    let mut total = Duration::ZERO;
    for _ in 0..times {
        let start = Instant::now();
        let result = case.run.map_or(Ok(()), |run| run(context));
        total += start.elapsed();
        record.count(result);
        // Only shown to people: pairs with nothing.
        done.fetch_add(1, Ordering::Relaxed);
    }
    record.total_nsec = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
    record.avg_usec = record.total_nsec / 1000 / times.max(1);
    record
}

impl CaseRecord {
    fn new(case: &Case, repeat: u64, loops: u64) -> Self {
        let (name, bit) = (case.name, case.bit);
        let (passed, failed, xfailed) = (0, 0, 0);
        let (avg_usec, total_nsec) = (0, 0);
        let first_failure = None;
        Self { name, bit, passed, failed, xfailed, repeat, loops, avg_usec, total_nsec, first_failure }
    }

    fn count(&mut self, result: Result<(), Refusal>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(Refusal::Expected) => self.xfailed += 1,
            Err(Refusal::Failed(reason)) => {
                self.failed += 1;
                self.first_failure.get_or_insert(reason);
            }
        }
    }
}
