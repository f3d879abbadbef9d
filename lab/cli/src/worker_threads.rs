//! Worker threads, of which the machine must allow as many as are asked for.

use crate::error::Failure;
use crate::machine::{map_count, max_map_count};
use std::sync::mpsc::Receiver;
use vmalloc_lab::workers;

/// The most workers: as many as Linux's driver takes.
pub(crate) const MAX_THREADS: u64 = 65_535;
/// Mappings of a thread: its stack and the stack for its signals, each with a guard page.
const MAPPINGS_PER_THREAD: u64 = 4;
/// Mappings that the program may want besides those that it has and the threads'.
const SPARE_MAPPINGS: u64 = 64;

/// The records of the workers.
pub(crate) struct Haul<T> {
    /// Those of the workers that came to their end, in the order of their numbers.
    pub(crate) records: Vec<T>,
    /// The workers that panicked, in words.
    pub(crate) complaints: Vec<String>,
}

/// Runs `work` in so many threads, each with its number, to the end of all; `meanwhile` runs in
/// this one, and is told when all are done: then every sender is gone. `asked` is how the number of
/// threads was typed.
pub(crate) fn run<T: Send>(
    threads: u64,
    asked: &str,
    work: impl Fn(u64) -> T + Sync,
    meanwhile: impl FnOnce(&Receiver<()>),
) -> Result<Haul<T>, Failure> {
    check_mappings(threads, asked)?;
    let (done, ()) = workers::run(threads as usize, |number| work(number as u64), meanwhile)
        .map_err(|it| Failure::new(format!("can't start thread {} of {asked}: {}", it.number, it.error)))?;
    let mut haul = Haul { records: Vec::new(), complaints: Vec::new() };
    for (number, done) in done.into_iter().enumerate() {
        match done {
            Ok(record) => haul.records.push(record),
            Err(_) => haul.complaints.push(format!("worker {number} panicked")),
        }
    }
    Ok(haul)
}

/// Refuses workers whose stacks the kernel would not map: the standard library aborts the program
/// when a thread that was started finds no room for its signal stack.
fn check_mappings(threads: u64, asked: &str) -> Result<(), Failure> {
    let needed = map_count() + threads * MAPPINGS_PER_THREAD + SPARE_MAPPINGS;
    match max_map_count().filter(|limit| needed > *limit) {
        None => Ok(()),
        Some(limit) => Err(Failure::new(format!(
            "{asked} would need about {needed} mappings; vm.max_map_count is {limit}"
        ))),
    }
}
