//! Rounds: all workers run all their cases once, the space must be whole again, and memory is
//! compared.
//!
//! Without `seconds` there is one round, of `test_repeat_count` runs of each case. With it there
//! are as many as there is time for, each in new orders; the last one is cut short. Between rounds
//! nothing is allocated, so what the program has then is what it keeps: it must not grow from the
//! first to the last.

use super::params::Parameters;
use super::worker::{self, Record, Round};
use crate::error::Failure;
use crate::heap;
use crate::machine::{Machine, resident_bytes};
use crate::progress::Wait;
use crate::random;
use crate::worker_threads::{self, Haul};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use vmalloc::Stats;
use vmalloc_lab::units::human_bytes;

/// The random stream that gives rounds their seeds: none of a worker's.
const SEEDS: u64 = u64::MAX;
/// How much more memory the last round may leave than the first: what heaps can't give back differs
/// by a few MiB from round to round, with 64 workers. A page lost with each thousandth area passes
/// this within minutes.
const SLACK_BYTES: u64 = 16 << 20;

/// The results of all rounds.
pub(super) struct Rounds {
    /// The workers.
    pub(super) records: Vec<Record>,
    /// The faults that were found, in words.
    pub(super) complaints: Vec<String>,
    /// The space after the last round, before its purge: what was freed may be lazy or cached.
    pub(super) after: Stats,
    /// The memory that the program keeps.
    pub(super) memory: Memory,
}

/// The memory that the program keeps when everything is freed and purged.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Memory {
    /// How many rounds there were.
    pub(super) rounds: u64,
    /// After the first.
    pub(super) first: Sample,
    /// After the last.
    pub(super) last: Sample,
}

/// The memory that the program keeps after a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Sample {
    /// Memory of the program.
    pub(super) resident_bytes: u64,
    /// Of it, the books of the space.
    pub(super) metadata_bytes: u64,
}

/// Runs all rounds.
pub(super) fn run(machine: &Machine, parameters: &Parameters, seed: u64) -> Result<Rounds, Failure> {
    if parameters.seconds.is_some() {
        heap::return_large_blocks();
    }
    let clock = Clock { start: Instant::now(), time: parameters.seconds.map(Duration::from_secs) };
    let mut rounds = first(machine, parameters, seed, &clock)?;
    let mut seeds = random::stream(seed, SEEDS);
    while clock.left().is_some_and(|left| !left.is_zero()) && rounds.complaints.is_empty() {
        let Haul { records, complaints } = round(machine, parameters, seeds.next_u64(), &clock)?;
        rounds.records.iter_mut().zip(&records).for_each(|(sum, record)| sum.add(record));
        rounds.complaints.extend(complaints);
        rounds.after = machine.counts();
        rounds.complaints.extend(machine.check_whole());
        rounds.memory.last = Sample::now(machine);
        rounds.memory.rounds += 1;
    }
    rounds.complaints.extend(rounds.memory.complaint());
    Ok(rounds)
}

fn first(machine: &Machine, parameters: &Parameters, seed: u64, clock: &Clock) -> Result<Rounds, Failure> {
    let Haul { records, mut complaints } = round(machine, parameters, seed, clock)?;
    let after = machine.counts();
    complaints.extend(machine.check_whole());
    let sample = Sample::now(machine);
    Ok(Rounds { records, complaints, after, memory: Memory { rounds: 1, first: sample, last: sample } })
}

/// Runs all workers to their end.
fn round(
    machine: &Machine,
    parameters: &Parameters,
    seed: u64,
    clock: &Clock,
) -> Result<Haul<Record>, Failure> {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let round = Round { machine, parameters, seed, done, stop };
    let threads = parameters.nr_threads;
    worker_threads::run(
        threads,
        &format!("nr_threads={threads}"),
        |number| worker::run(&round, number),
        |finished| clock.wait(&round, finished),
    )
}

/// The time of all rounds.
struct Clock {
    start: Instant,
    time: Option<Duration>,
}

impl Clock {
    /// Returns the rest of the time, if that is limited.
    fn left(&self) -> Option<Duration> {
        self.time.map(|time| time.saturating_sub(self.start.elapsed()))
    }

    /// Waits for the workers, and stops them when the time is over.
    fn wait(&self, round: &Round<'_>, finished: &Receiver<()>) {
        let parameters = round.parameters;
        let runs = || parameters.nr_threads * parameters.cases().count() as u64 * parameters.runs_a_round();
        let done = |_| round.done.load(Ordering::Relaxed);
        let passed = |_| self.start.elapsed().as_secs();
        let wait = match self.time {
            None => Wait { what: "runs of a case", all: runs(), done: &done, limit: None },
            Some(time) => Wait { what: "s", all: time.as_secs(), done: &passed, limit: self.left() },
        };
        wait.wait(finished);
        // Relaxed: publishes nothing; the workers are joined. Those that are done don't look.
        round.stop.store(true, Ordering::Relaxed);
    }
}

impl Sample {
    fn now(machine: &Machine) -> Self {
        heap::trim();
        Self { resident_bytes: resident_bytes(), metadata_bytes: machine.counts().metadata_bytes }
    }
}

impl Memory {
    fn complaint(&self) -> Option<String> {
        let grown = |name, first: u64, last: u64| {
            let (from, to) = (human_bytes(first), human_bytes(last));
            (last > first + SLACK_BYTES)
                .then(|| format!("{name} grew from {from} to {to} in {} rounds", self.rounds))
        };
        let Self { first, last, .. } = self;
        grown("the memory of the program", first.resident_bytes, last.resident_bytes)
            .or_else(|| grown("the metadata of the space", first.metadata_bytes, last.metadata_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_complaint_and_slack_is_not() {
        let sample = |resident_bytes, metadata_bytes| Sample { resident_bytes, metadata_bytes };
        let after = |last| Memory { rounds: 9, first: sample(10 << 20, 1 << 20), last }.complaint();
        assert_eq!(after(sample(20 << 20, 2 << 20)), None);
        assert_eq!(after(sample(1 << 20, 0)), None);
        let grew = "the memory of the program grew from 10 MiB to 100 MiB in 9 rounds";
        assert_eq!(after(sample(100 << 20, 2 << 20)).as_deref(), Some(grew));
        let grew = "the metadata of the space grew from 1 MiB to 70 MiB in 9 rounds";
        assert_eq!(after(sample(20 << 20, 70 << 20)).as_deref(), Some(grew));
    }
}
