//! The crew: a thread for each worker, started together.
//!
//! A thread that was started waits at the gate until all are there. When one can't be started the gate is
//! closed for good, and those that wait go home without having run anything.

use crate::error::Failure;
use crate::machine::{address_bytes, address_limit, map_count, max_map_count};
use indicatif::HumanBytes;
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread::{self, ScopedJoinHandle};

/// The most workers: as many as the field's driver takes.
pub(crate) const MAX_THREADS: u64 = 65_535;
/// The stack of a worker: it calls a few functions deep, and there may be many workers.
const STACK_BYTES: usize = 256 << 10;
/// Mappings of a thread: its stack and the stack for its signals, each with a guard page.
const MAPPINGS_PER_THREAD: u64 = 4;
/// Bytes of addresses of a thread: its stack, the stack for its signals, and what it takes from the heap at first.
const ADDRESSES_PER_THREAD: u64 = STACK_BYTES as u64 + (64 << 10);
/// Bytes of addresses that the program may want besides those that it has and the threads'.
const SPARE_ADDRESSES: u64 = 4 << 20;
/// Mappings that the program may want besides those that it has and the threads'.
const SPARE_MAPPINGS: u64 = 64;

/// What the crew brought home.
pub(crate) struct Haul<T> {
    /// What the workers brought, in the order of their numbers.
    pub(crate) records: Vec<T>,
    /// Workers that never came back, in words.
    pub(crate) complaints: Vec<String>,
}

/// Runs `work` in so many threads, each with its number, to the end of all; `meanwhile` runs in this one, and is told when all
/// are done: then every sender is gone. `asked` is how the number of threads was typed.
pub(crate) fn run<T: Send>(
    threads: u64,
    asked: &str,
    work: impl Fn(u64) -> T + Sync,
    meanwhile: impl FnOnce(&Receiver<()>),
) -> Result<Haul<T>, Failure> {
    check_mappings(threads, asked)?;
    check_addresses(threads, asked)?;
    let (gate, work) = (&Gate::default(), &work);
    thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        let mut crew = Vec::new();
        for number in 0..threads {
            // Hung up when the worker ends, however it does.
            let sender = sender.clone();
            let work = move || {
                let _sender = sender;
                gate.pass().then(|| work(number))
            };
            match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work) {
                Ok(handle) => crew.push(handle),
                Err(error) => {
                    gate.set(Sign::Closed);
                    return Err(no_thread(number, asked, &error));
                }
            }
        }
        drop(sender);
        gate.set(Sign::Open);
        meanwhile(&finished);
        Ok(collect(crew))
    })
}

fn collect<T>(crew: Vec<ScopedJoinHandle<'_, Option<T>>>) -> Haul<T> {
    let mut haul = Haul { records: Vec::new(), complaints: Vec::new() };
    for (number, handle) in crew.into_iter().enumerate() {
        match handle.join() {
            Ok(record) => haul.records.extend(record),
            Err(_) => haul.complaints.push(format!("worker {number} panicked")),
        }
    }
    haul
}

fn no_thread(number: u64, asked: &str, error: &io::Error) -> Failure {
    Failure::new(format!("can't start thread {} of {asked}: {error}", number + 1))
}

/// Refuses a crew whose stacks the kernel would not map: the standard library aborts the program when a
/// thread that was started finds no room for its signal stack.
fn check_mappings(threads: u64, asked: &str) -> Result<(), Failure> {
    let Some(limit) = max_map_count() else { return Ok(()) };
    let needed = map_count() + threads * MAPPINGS_PER_THREAD + SPARE_MAPPINGS;
    if needed <= limit {
        return Ok(());
    }
    Err(Failure::new(format!("{asked} would need about {needed} mappings; vm.max_map_count is {limit}")))
}

/// Refuses a crew that does not fit under `RLIMIT_AS`: a thread that was started and finds no memory for its
/// first few bytes ends the whole program.
fn check_addresses(threads: u64, asked: &str) -> Result<(), Failure> {
    let Some(limit) = address_limit() else { return Ok(()) };
    let needed = address_bytes() + threads * ADDRESSES_PER_THREAD + SPARE_ADDRESSES;
    if needed <= limit {
        return Ok(());
    }
    let (needed, limit) = (HumanBytes(needed), HumanBytes(limit));
    Err(Failure::new(format!(
        "{asked} would need about {needed} of addresses; the limit (ulimit -v) is {limit}"
    )))
}

/// Where workers wait for each other.
#[derive(Default)]
struct Gate {
    sign: Mutex<Sign>,
    changed: Condvar,
}

/// What the gate says.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Sign {
    #[default]
    Wait,
    Open,
    Closed,
}

impl Gate {
    /// Waits until the gate opens, or is closed for good; whether it opened.
    fn pass(&self) -> bool {
        // A sign is a plain value: a panic elsewhere can't leave it half written.
        let sign = self.sign.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_while(sign, |sign| *sign == Sign::Wait);
        *waiting.unwrap_or_else(PoisonError::into_inner) == Sign::Open
    }

    fn set(&self, sign: Sign) {
        *self.sign.lock().unwrap_or_else(PoisonError::into_inner) = sign;
        self.changed.notify_all();
    }
}
