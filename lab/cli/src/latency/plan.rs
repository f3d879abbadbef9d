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
    /// Areas of the live set of all workers, of which each frees a random one and allocates another
    /// in its place. The memory is not touched: a live set may be larger than the machine's memory.
    /// Without one they allocate a buffer, write a byte a page, and free it.
    pub(super) live: Option<u64>,
    /// The backing of areas where each pair of the workers is timed. Else one more thread measures
    /// how late it wakes each period, and how long it takes for a buffer of its own.
    pub(super) pairs: Option<Means>,
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
        let pairs = match (options.pairs, options.addresses) {
            (true, true) => Some(Means::Addresses),
            (true, false) => Some(Means::Memory),
            (false, true) => return Err(Failure::new("--addresses needs --pairs")),
            (false, false) => None,
        };
        let threads = options.threads.unwrap_or_else(cpus);
        let live = options.live.or(pairs.map(|_| LIVE_AREAS));
        if let Some(areas) = live.filter(|&areas| areas < threads) {
            let line = format!("--live {areas} leaves nothing to some of --threads {threads}");
            return Err(Failure::new(line));
        }
        Ok(Self { threads, time: Duration::from_secs(options.seconds), live, pairs })
    }

    /// Returns the backing of the workers' areas.
    pub(super) fn means(&self) -> Means {
        self.pairs.unwrap_or(Means::Memory)
    }
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}
