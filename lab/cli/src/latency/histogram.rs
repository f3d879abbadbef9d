//! Durations in a histogram, and what is told of them.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The longest duration that is told from longer ones, in nanoseconds: 100 s, far longer than anybody would wait for a pair.
const LONGEST_NS: u64 = 100_000_000_000;
/// Decimal digits kept of a duration. Three take some 200 KiB a histogram.
const DIGITS: u8 = 3;

/// Durations.
#[derive(Clone, Debug)]
pub(super) struct Durations(Histogram<u64>);

impl Durations {
    /// None yet. All memory is taken here, so that recording takes none.
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self(histogram.unwrap_or_else(|_| unreachable!("constant bounds that are valid")))
    }

    /// Counts one.
    #[inline]
    pub(super) fn record(&mut self, duration: Duration) {
        self.0.saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts all of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        // Can't fail: the bounds are the same.
        let _ = self.0.add(&other.0);
    }

    /// The histogram, of nanoseconds.
    pub(super) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// What is told of them.
    pub(super) fn distribution(&self) -> Distribution {
        let histogram = &self.0;
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Distribution {
            count: histogram.len(),
            min: histogram.min() as f64 / 1000.0,
            avg: histogram.mean() / 1000.0,
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

/// A distribution of durations in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Distribution {
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) avg: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    #[serde(rename = "p99.9")]
    pub(super) p99_9: f64,
    #[serde(rename = "p99.99")]
    pub(super) p99_99: f64,
    pub(super) max: f64,
}

impl Distribution {
    /// The durations, and what they are called.
    pub(super) fn columns(&self) -> [(&'static str, f64); 7] {
        [
            ("min", self.min),
            ("avg", self.avg),
            ("p50", self.p50),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("p99.99", self.p99_99),
            ("max", self.max),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut durations = Durations::new();
        (1..=1000).for_each(|us| durations.record(Duration::from_micros(us)));
        let told = durations.distribution();
        assert_eq!(told.count, 1000);
        for (value, expected) in
            told.columns().map(|(_, value)| value).iter().zip([1., 500.5, 500., 990., 999., 1000., 1000.])
        {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
        }
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let mut durations = Durations::new();
        durations.record(Duration::MAX);
        let mut sum = Durations::new();
        sum.add(&durations);
        assert_eq!(sum.distribution().count, 1);
        assert!(sum.distribution().max >= 100e6);
    }
}
