//! `vmalloc latency`: how late a periodic thread wakes while others allocate, and how long a pair
//! takes at worst.
//!
//! ```text
//!   options ──plan──► Plan ──┬─► worker: pairs as fast as it can     ┐
//!                            └─► probe: wakes each period, one pair  ┴─► histograms ──report──► text, JSON
//! ```
//!
//! Without `--pairs` the workers are only the load, and one more thread measures; with it there is
//! no such thread, and the workers time each of their own pairs.

mod plan;
mod probe;
mod report;
mod worker;

use crate::args::LatencyOptions;
use crate::error::{Exit, Failure};
use crate::machine::Machine;
use crate::output;
use crate::progress::Wait;
use crate::worker_threads::{self, Haul};
use plan::Plan;
use report::Report;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use worker::{Record, Worker};

/// Runs the command.
pub(crate) fn run(options: &LatencyOptions, json: bool) -> Result<Exit, Failure> {
    let plan = Plan::new(options)?;
    let machine = Machine::new(options.machine)?;
    let records = measure(&machine, &plan)?;
    let report = Report::new(&machine, &plan, options.machine, &records);
    report.warn();
    output::tell("latency", &report, &report.to_string(), json).map(|()| Exit::of(report.ok))
}

/// Runs all threads and returns their measurements. All areas of the workers are freed on return.
fn measure(machine: &Machine, plan: &Plan) -> Result<Vec<Record>, Failure> {
    let workers = Worker::all(machine, plan)?;
    let workers: Vec<_> = workers.into_iter().map(Mutex::new).collect();
    let stop = AtomicBool::new(false);
    let work = |number: u64| {
        let record = match workers.get(number as usize) {
            // Never contended: each worker has one thread.
            Some(worker) => {
                worker.lock().map_err(|_| "a worker panicked".into()).and_then(|mut it| it.run(&stop))
            }
            None => probe::run(machine, &stop),
        };
        if record.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        record
    };
    let asked = format!("--threads {}", plan.threads);
    let Haul { records, complaints } =
        worker_threads::run(plan.threads + u64::from(plan.pairs.is_none()), &asked, work, |finished| {
            wait(plan, finished, &stop);
        })?;
    if let Some(complaint) = complaints.first() {
        return Err(Failure::new(complaint));
    }
    records.into_iter().collect::<Result<_, String>>().map_err(Failure::new)
}

/// Waits for the end of the time, and then for the threads.
fn wait(plan: &Plan, finished: &std::sync::mpsc::Receiver<()>, stop: &AtomicBool) {
    let limit = Some(plan.time);
    Wait { what: "s", all: plan.time.as_secs(), done: &|elapsed: Duration| elapsed.as_secs(), limit }
        .wait(finished);
    // Relaxed: publishes nothing; the threads are joined.
    stop.store(true, Ordering::Relaxed);
}
