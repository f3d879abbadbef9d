//! How long single calls take: a histogram of nanoseconds, which all measurements share.

use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// The longest time that is told from longer ones: 100 s.
const LONGEST_NS: u64 = 100_000_000_000;
/// Decimal digits kept of a time: it is told to 1 %, which is less than runs differ, by 33 KiB,
/// which stay in a cache.
const DIGITS: u8 = 2;
/// Decimal digits of precise times, which take some 200 KiB.
const PRECISE_DIGITS: u8 = 3;

/// Times of calls. All memory is taken at first.
#[derive(Clone, PartialEq, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self::with_digits(DIGITS)
    }
}

impl Times {
    /// Returns an empty histogram that tells times to 0.1 %, for those that are published.
    #[must_use]
    pub fn precise() -> Self {
        Self::with_digits(PRECISE_DIGITS)
    }

    fn with_digits(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, digits);
        Self(histogram.unwrap_or_else(|_| unreachable!("constant bounds that are valid")))
    }

    /// Counts one.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts all of `other`, which has the same precision.
    pub fn add(&mut self, other: &Self) {
        // Can't fail: the bounds are the same.
        let _ = self.0.add(&other.0);
    }

    /// Returns how many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns their mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Returns the longest.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Returns the time that so large a part of all does not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        self.0.value_at_quantile(part)
    }
}

/// Measures a look at the clock, in nanoseconds: the median of many.
#[must_use]
pub fn clock_ns() -> u64 {
    let mut times = Times::default();
    for _ in 0..1000 {
        let start = Instant::now();
        times.record(start.elapsed());
    }
    times.quantile(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut times = Times::default();
        assert_eq!((times.quantile(0.5), times.max()), (0, 0));
        (1..=10_000).for_each(|value| times.record(Duration::from_nanos(value)));
        assert_eq!(times.count(), 10_000);
        for (part, exact) in [(0.5, 5000.0), (0.99, 9900.0), (0.001, 10.0), (1.0, 10_000.0)] {
            let told = times.quantile(part) as f64;
            assert!((told / exact - 1.0).abs() < 0.01, "{told} for {exact}");
        }
        times.record(Duration::MAX);
        assert!(times.max() >= LONGEST_NS);
    }
}
