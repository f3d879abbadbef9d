//! Durations by how long they are.
//!
//! Each octave has 32 buckets of equal width, as HdrHistogram's have: a value is told to 3 %, and recording is a shift and an add.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// log2 of the buckets of an octave.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((u64::BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Durations in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }
}

/// Values below 32 have a bucket each; above, the highest five bits after the first one tell.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - SUB_BITS).saturating_sub((value | 1).leading_zeros() + 1);
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// The lowest value of a bucket.
fn lowest(bucket: usize) -> u64 {
    let shift = (bucket as u64 >> SUB_BITS).saturating_sub(1);
    (bucket as u64 - (shift << SUB_BITS)) << shift
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let value = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// How many were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The duration that so large a part of all does not exceed, to 3 %.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let reached = |&(_, count): &(u64, u64)| {
            seen += count;
            seen >= rank
        };
        self.steps().find(reached).map_or(0, |(value, _)| value.min(self.max))
    }

    /// Buckets that are not empty: the longest duration in each, and how many.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = |(bucket, &count): (usize, &u64)| (count > 0).then(|| (lowest(bucket + 1) - 1, count));
        self.buckets[..BUCKETS - SUB as usize].iter().enumerate().filter_map(counted)
    }
}

/// The quantiles that are told of a histogram, and their names.
pub const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Histogram", 4)?;
        fields.serialize_field("count", &self.count)?;
        let quantiles: std::collections::BTreeMap<_, _> =
            QUANTILES.map(|(name, part)| (name, self.quantile(part))).into();
        fields.serialize_field("quantiles_ns", &quantiles)?;
        fields.serialize_field("max_ns", &self.max)?;
        fields.serialize_field("up_to_ns_and_count", &self.steps().collect::<Vec<_>>())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for value in (0..10_000).chain((14..62).map(|power| 1 << power)) {
            let index = bucket(value);
            assert!(lowest(index) <= value && value < lowest(index + 1), "{value}");
            assert!((lowest(index + 1) - lowest(index)) * SUB <= value.max(SUB), "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.steps().count()), (0, 0));
        (1..=10_000).for_each(|value| histogram.record(Duration::from_nanos(value)));
        assert_eq!((histogram.count(), histogram.max(), histogram.quantile(1.0)), (10_000, 10_000, 10_000));
        for (part, exact) in [(0.5, 5000.0), (0.99, 9900.0), (0.001, 10.0)] {
            let told = histogram.quantile(part) as f64;
            assert!((told / exact - 1.0).abs() < 0.04, "{told} for {exact}");
        }
        histogram.record(Duration::MAX);
    }
}
