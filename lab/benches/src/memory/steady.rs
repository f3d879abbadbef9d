//! Areas of 1 to 64 pages that replace each other: how much memory the allocator keeps besides.

use super::Row;
use super::alone::{self, Load, minor_faults};
use crate::buffers::{Buffers, Live, PAGE_BYTES};
use crate::by_hand::kib;
use crate::rounds::Limits;

/// Live areas, and the most that resident over live memory and the faults of a pair must be.
const SIZES: [(usize, [f64; 2]); 4] =
    [(100, [2.0, 0.063]), (300, [1.6, 0.034]), (1000, [1.3, 0.009]), (4000, [1.22, 0.016])];
/// Pairs that are counted, and pairs of each live area before them.
const PAIRS: usize = 100_000;
const WARM_UP: usize = 8;
/// Pairs between two looks at what is resident.
const LOOK: usize = 512;
const MOST_PAGES: u64 = 64;

/// Plays all allocators at all sizes.
pub fn run(limits: &Limits) -> Vec<Row> {
    let pairs = if limits.rounds < 5 { PAIRS / 10 } else { PAIRS };
    SIZES.into_iter().flat_map(|(live, _)| alone::run::<Steady>(live, pairs)).collect()
}

/// So many live areas, and pairs of a free and an allocation.
pub(super) struct Steady {
    live: usize,
    pairs: usize,
}

impl Load for Steady {
    const NAME: &'static str = "steady";
    const UNITS: &'static [&'static str] = &["resident over live", "page faults a pair"];

    fn new(live: usize, pairs: usize) -> Self {
        Self { live, pairs }
    }

    fn title(&self) -> String {
        let pages = (MOST_PAGES + 1) as f64 / 2.0;
        let mib = self.live as f64 * pages * PAGE_BYTES as f64 / (1 << 20) as f64;
        format!("steady, {mib:.0} MiB live")
    }

    fn musts(&self) -> Vec<Option<f64>> {
        let musts = SIZES.iter().find(|(live, _)| *live == self.live).map(|(_, musts)| musts.map(Some));
        musts.unwrap_or_default().to_vec()
    }

    fn play<B: Buffers + 'static>(&self) -> Vec<f64> {
        let before = kib("status", "VmRSS:");
        let mut areas = Live::new(B::build(), 7, self.live, 1..=MOST_PAGES);
        areas.replace_with_last(WARM_UP * self.live);
        let (faults, mut looks) = (minor_faults(), Vec::new());
        for pair in 0..self.pairs {
            areas.replace_with_last(1);
            if pair % LOOK == 0 {
                let resident = kib("status", "VmRSS:").saturating_sub(before) << 10;
                looks.push(resident as f64 / areas.bytes as f64);
            }
        }
        let faults = (minor_faults() - faults) as f64 / self.pairs as f64;
        vec![looks.iter().sum::<f64>() / looks.len() as f64, faults]
    }
}
