//! A worker: pairs of an allocation and a free, as fast as it can.

use super::plan::{BUFFER_BYTES, MAX_PAGES, Means, Plan};
use crate::cases::Area;
use crate::error::Failure;
use crate::machine::Machine;
use crate::random;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vmalloc::Request;
use vmalloc_lab::rng::Rng;
use vmalloc_lab::times::Times;

/// Replacements for each area of a live set before anything is measured: the set is then as
/// scattered as it gets.
const CHURN: usize = 2;
/// The random numbers of all runs: the same, so that runs differ in their timing alone.
const SEED: u64 = 0;

/// The measurements of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Pairs that a worker made.
    pub(super) pairs: u64,
    /// How long single pairs took.
    pub(super) timed: Option<Times>,
    /// How late the probe woke.
    pub(super) late: Option<Times>,
    /// Wake-ups that the probe missed.
    pub(super) missed: u64,
}

/// A worker, ready to start.
pub(super) struct Worker<'m> {
    machine: &'m Machine,
    plan: Plan,
    live: LiveSet<'m>,
    random: Rng,
}

impl<'m> Worker<'m> {
    /// All workers, each with its share of the live set.
    pub(super) fn all(machine: &'m Machine, plan: &Plan) -> Result<Vec<Self>, Failure> {
        (0..plan.threads).map(|number| Self::new(machine, plan, number)).collect()
    }

    fn new(machine: &'m Machine, plan: &Plan, number: u64) -> Result<Self, Failure> {
        let live = LiveSet { machine, means: plan.means(), addrs: Vec::new() };
        let mut worker = Self { machine, plan: *plan, live, random: random::stream(SEED, number) };
        if let Some(areas) = plan.live {
            let share = areas / plan.threads + u64::from(number < areas % plan.threads);
            worker.fill(share).map_err(|error| Failure::new(format!("can't make the live set: {error}")))?;
        }
        Ok(worker)
    }

    fn fill(&mut self, areas: u64) -> Result<(), String> {
        for _ in 0..areas {
            let request = self.request();
            self.live.push(&request)?;
        }
        for _ in 0..self.live.addrs.len() * CHURN {
            let (slot, request) = (self.slot(), self.request());
            self.live.replace(slot, &request)?;
        }
        Ok(())
    }

    /// Works until `stop`.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> Result<Record, String> {
        if self.plan.live.is_some() { self.replace(stop) } else { self.bounce(stop) }
    }

    fn bounce(&self, stop: &AtomicBool) -> Result<Record, String> {
        let mut pairs = 0;
        // Relaxed, here and below: nothing is read that the flag publishes.
        while !stop.load(Ordering::Relaxed) {
            let area = Area::touched(self.machine, BUFFER_BYTES).map_err(told)?;
            area.free().map_err(told)?;
            pairs += 1;
        }
        Ok(Record { pairs, ..Record::default() })
    }

    fn replace(&mut self, stop: &AtomicBool) -> Result<Record, String> {
        let mut timed = self.plan.pairs.map(|_| Times::precise());
        let mut pairs = 0;
        while !stop.load(Ordering::Relaxed) {
            let (slot, request) = (self.slot(), self.request());
            let start = Instant::now();
            self.live.replace(slot, &request)?;
            if let Some(timed) = &mut timed {
                timed.record(start.elapsed());
            }
            pairs += 1;
        }
        Ok(Record { pairs, timed, ..Record::default() })
    }

    /// Draws a request of random size.
    fn request(&mut self) -> Request {
        crate::cases::request(self.machine, 1 + self.random.below(MAX_PAGES))
    }

    /// Draws an area of the live set, which is not empty.
    fn slot(&mut self) -> usize {
        self.random.below(self.live.addrs.len() as u64) as usize
    }
}

/// Areas that are live, owned.
struct LiveSet<'m> {
    machine: &'m Machine,
    means: Means,
    addrs: Vec<usize>,
}

impl LiveSet<'_> {
    fn push(&mut self, request: &Request) -> Result<(), String> {
        let addr = self.take(request)?;
        self.addrs.push(addr);
        Ok(())
    }

    /// One free, one allocation.
    #[inline]
    fn replace(&mut self, slot: usize, request: &Request) -> Result<(), String> {
        self.give_back(self.addrs[slot])?;
        match self.take(request) {
            Ok(addr) => self.addrs[slot] = addr,
            Err(error) => {
                self.addrs.swap_remove(slot);
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline]
    fn take(&self, request: &Request) -> Result<usize, String> {
        let space = &self.machine.space;
        let taken = match self.means {
            Means::Memory => space.raw().alloc(request),
            Means::Addresses => space.raw().reserve(request),
        };
        taken.map_err(told)
    }

    #[inline]
    fn give_back(&self, addr: usize) -> Result<(), String> {
        let space = &self.machine.space;
        let given = match self.means {
            // SAFETY: the set owned the area, and its callers forget the address.
            Means::Memory => unsafe { space.raw().free(addr) },
            // SAFETY: nothing uses the addresses any more.
            Means::Addresses => unsafe { space.raw().unreserve(addr) },
        };
        given.map_err(told)
    }
}

impl Drop for LiveSet<'_> {
    fn drop(&mut self) {
        for &addr in &self.addrs {
            // A refused area stays busy, which the check after the run reports.
            let _ = self.give_back(addr);
        }
    }
}

fn told(error: impl Display) -> String {
    error.to_string()
}
