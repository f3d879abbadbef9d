//! The distribution of the times of single calls.

use crate::times::Times;
use serde::Serialize;

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

impl From<&Times> for Latency {
    fn from(times: &Times) -> Self {
        let at = |quantile| times.quantile(quantile);
        Self {
            count: times.count(),
            mean: times.mean(),
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: times.max(),
        }
    }
}
