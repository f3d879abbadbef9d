//! Single pairs: how long one free and one allocation take, at 100,000 live areas, down to the
//! slowest of a million.
//!
//! What the machine does to a program, interrupts and the hypervisor, is in every tail: the same
//! loop without an allocator shows how much. It does not come twice at the same place, so of the
//! slowest pair the least of several runs is told: what an allocator does itself is in each of
//! them.
//!
//! Whatever an allocator leaves to the background is done by the thread that its adapter starts in
//! [`Ranges::build`]: those of ours that are named for it ([`Drained`](crate::adapter::Drained)).

use crate::ranges::Ranges;
use crate::stage::{Stage, TooSlow};
use crate::workload::{Cycle, Layer, Setup, Shape, Workload};
use std::time::Duration;
use vmalloc_kit::stats::median;

/// The workloads: mixed sizes, and one page.
pub const WORKLOADS: [Workload; 2] = [
    workload("100k", 64, "100,000 live areas of 1…64 pages, replaced at random"),
    workload("100k-1", 1, "100,000 live areas of one page, replaced at random"),
];

const fn workload(name: &'static str, max_pages: u32, about: &'static str) -> Workload {
    let shape = Shape { min_pages: 1, max_pages, max_order: 0 };
    let setup = Setup::Steady { areas: 100_000, churn: 200_000, shape };
    Workload {
        name,
        about,
        layer: Layer::Space,
        setup,
        cycle: Cycle::Replace(shape),
        guard: false,
        large: false,
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Runs.
    pub runs: usize,
    /// Pairs of a run.
    pub pairs: usize,
    /// The most that a set-up may take.
    pub cap: Duration,
}

/// The result of one allocator in one workload, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which allocator.
    pub allocator: &'static str,
    /// The quantiles, each the median of the runs.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// The slowest pair of a run: the least of the runs.
    pub least_max: f64,
    /// And the most.
    pub most_max: f64,
}

/// Plays `workload` over the allocator `R`.
///
/// # Errors
/// [`TooSlow`] when the live set takes longer than the cap.
pub fn run<R: Ranges>(workload: &Workload, limits: &Limits) -> Result<Row, TooSlow> {
    let mut stage = Stage::<R>::new(workload);
    stage.set_up(limits.cap)?;
    let runs: Vec<_> = (0..limits.runs).map(|_| stage.time(limits.pairs)).collect();
    let at = |part| median(&runs.iter().map(|run| run.quantile(part) as f64).collect::<Vec<_>>());
    let slowest = || runs.iter().map(|run| run.max() as f64);
    Ok(Row {
        allocator: R::NAME,
        p50: at(0.5),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        least_max: slowest().fold(f64::MAX, f64::min),
        most_max: slowest().fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Caller, Drained, OurSpace};
    use vmalloc_kit::null::FirstCpu;
    use vmalloc_linux::FutexLock;

    #[test]
    fn quantiles_ascend() {
        let shape = Shape { min_pages: 1, max_pages: 4, max_order: 0 };
        let setup = Setup::Steady { areas: 100, churn: 100, shape };
        let workload = Workload { setup, cycle: Cycle::Replace(shape), ..WORKLOADS[0] };
        let limits = Limits { runs: 3, pairs: 10_000, cap: Duration::from_secs(100) };
        for row in [
            run::<OurSpace<true, Caller<FutexLock, FirstCpu>>>(&workload, &limits),
            run::<OurSpace<false, Drained<FutexLock, FirstCpu>>>(&workload, &limits),
        ] {
            let row = row.expect("a small set");
            assert!([row.p50, row.p99, row.p99_9, row.p99_99, row.most_max].is_sorted(), "{row:?}");
            assert!(row.p50 > 0.0 && row.least_max <= row.most_max, "{row:?}");
        }
    }
}
