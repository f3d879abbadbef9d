//! The plan of a run: the options, checked once.

use crate::args::LatencyOptions;
use crate::error::Failure;
use std::time::Duration;

/// Areas that are live while pairs are timed, unless told otherwise.
const LIVE_AREAS: u64 = 100_000;
/// Pages of the largest area of a live set; the smallest has one, and all sizes between are equally
/// likely.
pub(super) const MAX_PAGES: u64 = 64;
/// Bytes of a buffer: two pages, as in the measurements that made Linux's vmalloc scale.
pub(super) const BUFFER_BYTES: usize = 8 << 10;
/// The time between two wake-ups: that of cyclictest.
pub(super) const PERIOD: Duration = Duration::from_millis(1);

/// The checked options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Workers.
    pub(super) threads: u64,
    /// How long.
    pub(super) time: Duration,
    /// The load that the workers make.
    pub(super) load: Load,
    /// The quantity that is measured.
    pub(super) measure: Measure,
}

/// The load that the workers make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// Allocate a buffer, write a byte a page, free it.
    Bounce,
    /// Free a random area of a live set, and allocate another one in its place. The memory is not
    /// touched: a live set may be larger than the machine's memory.
    Replace {
        /// Areas of all workers.
        areas: u64,
    },
}

/// The quantity that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    /// How late one more thread wakes each period, and how long it takes for a buffer of its own.
    Wakeups,
    /// Each pair of the workers.
    Pairs(Means),
}

/// The backing of areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// Memory.
    Memory,
    /// Addresses alone.
    Addresses,
}

impl Plan {
    /// Checks the options against each other.
    pub(super) fn new(options: &LatencyOptions) -> Result<Self, Failure> {
        let measure = match (options.pairs, options.addresses) {
            (true, true) => Measure::Pairs(Means::Addresses),
            (true, false) => Measure::Pairs(Means::Memory),
            (false, true) => return Err(Failure::new("--addresses needs --pairs")),
            (false, false) => Measure::Wakeups,
        };
        let plan = Self {
            threads: options.threads.unwrap_or_else(cpus),
            time: Duration::from_secs(options.seconds),
            load: load(options, measure),
            measure,
        };
        match plan.load {
            Load::Replace { areas } if areas < plan.threads => {
                let threads = plan.threads;
                Err(Failure::new(format!("--live {areas} leaves nothing to some of --threads {threads}")))
            }
            _ => Ok(plan),
        }
    }

    /// Returns the backing of the workers' areas.
    pub(super) fn means(&self) -> Means {
        match self.measure {
            Measure::Pairs(means) => means,
            Measure::Wakeups => Means::Memory,
        }
    }
}

fn load(options: &LatencyOptions, measure: Measure) -> Load {
    match (options.live, measure) {
        (None, Measure::Wakeups) => Load::Bounce,
        (areas, _) => Load::Replace { areas: areas.unwrap_or(LIVE_AREAS) },
    }
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}
