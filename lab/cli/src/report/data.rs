//! Everything that is measured.

use crate::args::ReportOptions;
use crate::error::Failure;
use crate::progress::watched;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vmalloc_lab::designs::Name;
use vmalloc_lab::measure::fragmentation::{self, Fragmentation};
use vmalloc_lab::measure::latency::{self, Latency};
use vmalloc_lab::measure::live::{self, Curve};
use vmalloc_lab::measure::machine::{self, Machine, Noise};
use vmalloc_lab::measure::{Budget, threads};

/// How often the same work is timed to see how steady the machine is: some 30 ms in all.
const NOISE_TIMES: usize = 300;
/// Each generation as it was, and ours both ways: designs that differ in the purge alone are
/// measured on request.
const DESIGNS: [Name; 6] =
    [Name::BusyList, Name::FreeList, Name::Augmented, Name::Nodes, Name::Vmalloc, Name::VmallocCached];

/// A report's numbers.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    pub(super) commit: Option<&'static str>,
    pub(super) date: String,
    /// As it was typed.
    pub(super) command_line: String,
    pub(super) machine: Machine,
    pub(super) noise: Noise,
    pub(super) budget: Budget,
    pub(super) seconds: f64,
    pub(super) designs: Vec<DesignData>,
}

/// The measurements of a design.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DesignData {
    /// Its place among all designs, which gives it its looks.
    pub(super) place: usize,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) live: Curve,
    pub(super) threads: Vec<threads::Point>,
    pub(super) latency: Latency,
    pub(super) fragmentation: Fragmentation,
}

impl Data {
    /// Measures everything.
    pub(super) fn measure(options: &ReportOptions) -> Result<Self, Failure> {
        let budget = budget(options);
        let chosen = if options.design.is_empty() { DESIGNS.as_slice() } else { &options.design };
        let names: Vec<_> =
            Name::ALL.iter().copied().enumerate().filter(|(_, name)| chosen.contains(name)).collect();
        let start = Instant::now();
        let (machine, noise) = (Machine::this(), machine::noise(NOISE_TIMES));
        let done = &AtomicU64::new(0);
        let all = names.len() as u64 * STEPS;
        // Relaxed, here and below: for people to look at.
        let designs = watched("measurements", all, &|| done.load(Ordering::Relaxed), || {
            names.into_iter().map(|(place, name)| DesignData::measure(place, name, &budget, done)).collect()
        })?;
        Ok(Self {
            commit: option_env!("VMALLOC_COMMIT"),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            command_line: command_line(),
            machine,
            noise,
            budget,
            seconds: start.elapsed().as_secs_f64(),
            designs,
        })
    }
}

/// Returns the command line without the directory of the program, which is private.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("vmalloc".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn budget(options: &ReportOptions) -> Budget {
    let budget = if options.quick { Budget::QUICK } else { Budget::FULL };
    Budget { live_max: options.live_max.unwrap_or(budget.live_max), ..budget }
}

/// Measurements of a design.
const STEPS: u64 = 4;

impl DesignData {
    fn measure(place: usize, name: Name, budget: &Budget, done: &AtomicU64) -> Self {
        Self {
            place,
            name: name.as_str(),
            about: name.about(),
            live: step(done, || live::measure(name, budget)),
            threads: step(done, || threads::measure(name, budget)),
            latency: step(done, || latency::measure(name, budget)),
            fragmentation: step(done, || fragmentation::measure(name, budget)),
        }
    }
}

fn step<T>(done: &AtomicU64, measure: impl FnOnce() -> T) -> T {
    let measured = measure();
    done.fetch_add(1, Ordering::Relaxed);
    measured
}
