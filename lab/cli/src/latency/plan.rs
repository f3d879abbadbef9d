//! The plan of a run: the options, checked once.

use crate::args::LatencyOptions;
use crate::error::Failure;
use std::time::Duration;

/// Areas that are live while pairs are timed, unless told otherwise.
const LIVE_AREAS: u64 = 100_000;
/// Pages of the largest area of a live set, unless told otherwise.
const MAX_PAGES: u64 = 64;
/// Bytes of a buffer, unless told otherwise: two pages, as in the measurements that made Linux's
/// vmalloc scale.
const BUFFER_BYTES: u64 = 8 << 10;
/// The time between two wake-ups in microseconds, unless told otherwise: that of cyclictest.
const PERIOD_US: u64 = 1000;

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
    /// Allocate a buffer of so many bytes, write a byte a page, free it.
    Bounce {
        /// Its size.
        bytes: usize,
    },
    /// Free a random area of a live set, and allocate another one in its place. The memory is not
    /// touched: a live set may be larger than the machine's memory.
    Replace {
        /// Areas of all workers.
        areas: u64,
        /// Pages of the largest; the smallest has one, and all sizes between are equally likely.
        max_pages: u64,
    },
}

/// The quantity that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    /// How late one more thread wakes each period, and how long it takes for a buffer of its own.
    Wakeups {
        /// The time between two wake-ups.
        period: Duration,
        /// Bytes of its buffer.
        bytes: usize,
    },
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
        let bytes = usize::try_from(options.bytes.unwrap_or(BUFFER_BYTES)).unwrap_or(usize::MAX);
        let measure = match (options.pairs, options.addresses) {
            (true, true) => Measure::Pairs(Means::Addresses),
            (true, false) => Measure::Pairs(Means::Memory),
            (false, true) => return Err(Failure::new("--addresses needs --pairs")),
            (false, false) => {
                let period = Duration::from_micros(options.period_us.unwrap_or(PERIOD_US));
                Measure::Wakeups { period, bytes }
            }
        };
        let plan = Self {
            threads: options.threads.unwrap_or_else(cpus),
            time: Duration::from_secs(options.seconds),
            load: load(options, measure, bytes)?,
            measure,
        };
        plan.check()
    }

    fn check(self) -> Result<Self, Failure> {
        match self.load {
            Load::Replace { areas, .. } if areas < self.threads => {
                let threads = self.threads;
                Err(Failure::new(format!("--live {areas} leaves nothing to some of --threads {threads}")))
            }
            _ => Ok(self),
        }
    }

    /// Returns the backing of the workers' areas.
    pub(super) fn means(&self) -> Means {
        match self.measure {
            Measure::Pairs(means) => means,
            Measure::Wakeups { .. } => Means::Memory,
        }
    }
}

fn load(options: &LatencyOptions, measure: Measure, bytes: usize) -> Result<Load, Failure> {
    let max_pages = options.max_pages.unwrap_or(MAX_PAGES);
    match (options.live, measure) {
        (Some(areas), _) => Ok(Load::Replace { areas, max_pages }),
        (None, Measure::Pairs(_)) => Ok(Load::Replace { areas: LIVE_AREAS, max_pages }),
        (None, Measure::Wakeups { .. }) if options.max_pages.is_some() => {
            Err(Failure::new("--max-pages needs --live or --pairs"))
        }
        (None, Measure::Wakeups { .. }) => Ok(Load::Bounce { bytes }),
    }
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}
