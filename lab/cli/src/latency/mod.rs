//! `vmalloc-lab latency`: how late a periodic thread wakes while others allocate and free.
//!
//! ```text
//!   workers: pairs as fast as they can        ──┐
//!   probe: wakes each period, times one pair  ──┴─► histograms ──report──► text, JSON
//! ```

mod probe;
mod report;

use crate::args::LatencyOptions;
use crate::cases::Area;
use crate::error::{Exit, Failure};
use crate::machine::Machine;
use crate::output;
use crate::progress::Wait;
use crate::worker_threads::{self, Haul};
use report::Report;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vmalloc_lab::times::Times;

/// Bytes of a buffer: two pages, as in the measurements that made Linux's vmalloc scale.
const BUFFER_BYTES: usize = 8 << 10;
/// The time between two wake-ups: that of cyclictest.
const PERIOD: Duration = Duration::from_millis(1);

/// The measurements of a thread.
#[derive(Clone, Debug, Default)]
struct Record {
    /// Pairs that a worker made.
    pairs: u64,
    /// How long single pairs of the probe took.
    timed: Option<Times>,
    /// How late the probe woke.
    late: Option<Times>,
    /// Wake-ups that the probe missed.
    missed: u64,
}

/// Runs the command.
pub(crate) fn run(options: &LatencyOptions, json: bool) -> Result<Exit, Failure> {
    let threads = options.threads.unwrap_or_else(cpus);
    let machine = Machine::new(options.machine)?;
    let records = measure(&machine, threads, Duration::from_secs(options.seconds))?;
    let report = Report::new(&machine, options, threads, &records);
    report.warn();
    output::tell("latency", &report, &report.to_string(), json).map(|()| Exit::of(report.ok))
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}

/// Runs as many workers and the probe, and returns their measurements.
fn measure(machine: &Machine, threads: u64, time: Duration) -> Result<Vec<Record>, Failure> {
    let stop = AtomicBool::new(false);
    let work = |number: u64| {
        let record = if number < threads { bounce(machine, &stop) } else { probe::run(machine, &stop) };
        if record.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        record
    };
    let Haul { records, complaints } =
        worker_threads::run(threads + 1, &format!("--threads {threads}"), work, |finished| {
            let done = |elapsed: Duration| elapsed.as_secs();
            Wait { what: "s", all: time.as_secs(), done: &done, limit: Some(time) }.wait(finished);
            // Relaxed: publishes nothing; the threads are joined.
            stop.store(true, Ordering::Relaxed);
        })?;
    if let Some(complaint) = complaints.first() {
        return Err(Failure::new(complaint));
    }
    records.into_iter().collect::<Result<_, String>>().map_err(Failure::new)
}

/// Allocates a buffer, writes a byte a page and frees it, until `stop`.
fn bounce(machine: &Machine, stop: &AtomicBool) -> Result<Record, String> {
    let mut pairs = 0;
    // Relaxed: nothing is read that the flag publishes.
    while !stop.load(Ordering::Relaxed) {
        let area = Area::touched(machine, BUFFER_BYTES).map_err(|error| error.to_string())?;
        area.free().map_err(|error| error.to_string())?;
        pairs += 1;
    }
    Ok(Record { pairs, ..Record::default() })
}
