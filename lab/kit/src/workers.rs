//! Worker threads that start together: all of them, or none.
//!
//! A thread that was started waits at a gate until all are there. When one can't be started the
//! gate is closed for good, and the others end without having run anything.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder};

/// The stack of a worker: it calls a few functions deep, and there may be many workers.
const STACK_BYTES: usize = 256 << 10;

/// A thread that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("can't start thread {number} of {all}: {error}")]
pub struct NotStarted {
    /// Its number, from 1.
    pub number: usize,
    /// How many there should be.
    pub all: usize,
    /// Why.
    pub error: io::Error,
}

/// Runs `work` in so many threads, each with its number, to the end of all.
///
/// `meanwhile` runs in this thread from the moment at which the workers begin. It is told when all
/// are done: then every sender is gone. Returns what the workers returned, in their order, or how
/// they panicked; and what `meanwhile` did.
///
/// # Errors
/// [`NotStarted`]: then no worker has begun.
pub fn run<T: Send, M>(
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    meanwhile: impl FnOnce(&Receiver<()>) -> M,
) -> Result<(Vec<thread::Result<T>>, M), NotStarted> {
    let (gate, work) = (&Gate::default(), &work);
    thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        let mut workers = Vec::new();
        for number in 0..threads {
            // Dropped when the worker ends, however it does.
            let sender = sender.clone();
            let work = move || {
                let _sender = sender;
                gate.pass().then(|| work(number))
            };
            match Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    gate.set(Sign::Closed);
                    return Err(NotStarted { number: number + 1, all: threads, error });
                }
            }
        }
        drop(sender);
        gate.set(Sign::Open);
        let met = meanwhile(&finished);
        // The gate was opened, so every worker that ended has worked.
        let done = workers.into_iter().map(|it| it.join().map(|done| done.expect("an open gate"))).collect();
        Ok((done, met))
    })
}

/// Waits until all workers are done: for `meanwhile`.
pub fn all_done(finished: &Receiver<()>) {
    // Nothing is sent: an error is the end of the last worker.
    let _ = finished.recv();
}

/// Where workers wait for each other.
#[derive(Default)]
struct Gate {
    sign: Mutex<Sign>,
    changed: Condvar,
}

/// The state of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Sign {
    #[default]
    Wait,
    Open,
    Closed,
}

impl Gate {
    /// Waits until the gate opens, or is closed for good; returns true if it opened.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_run_and_a_panic_is_returned() {
        let work = |number| if number == 1 { panic!("asked to") } else { number };
        let (done, ()) = run(3, work, all_done).expect("three threads");
        let done: Vec<_> = done.into_iter().map(Result::ok).collect();
        assert_eq!(done, [Some(0), None, Some(2)]);
    }
}
