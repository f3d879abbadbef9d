//! How long single calls take.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The longest time that is told from longer ones: 100 s.
const LONGEST_NS: u64 = 100_000_000_000;
/// Decimal digits kept of a time.
const DIGITS: u8 = 3;

/// Times of calls. All memory is taken at first.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self(histogram.unwrap_or_else(|_| unreachable!("constant bounds that are valid")))
    }

    #[inline]
    pub(super) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Can't fail: the bounds are the same.
        let _ = self.0.add(&other.0);
    }

    pub(super) fn latency(&self) -> Latency {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Latency {
            count: self.0.len(),
            mean: self.0.mean(),
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: self.0.max(),
        }
    }
}

/// Times of calls, in nanoseconds. Each holds the time of one look at the clock.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// How many calls.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of them took no longer.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// 9999 of 10000.
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    /// All.
    pub max: u64,
}

/// What a look at the clock takes, in nanoseconds: the median of many.
pub(super) fn clock_ns() -> u64 {
    let mut times = Times::new();
    for _ in 0..1000 {
        let start = Instant::now();
        times.record(start.elapsed());
    }
    times.latency().p50
}
