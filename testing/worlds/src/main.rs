//! Runs worlds one after the other for so many seconds, half of them with forks. `VMALLOC_SEED`
//! chooses the first.

use std::time::{Duration, Instant};
use vmalloc_worlds::{Forks, run};

fn main() {
    let seconds = std::env::args().nth(1).map_or(60, |text| text.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut worlds, mut steps) = (vmalloc_model::env::seed(1), 0_u64, 0);
    while Instant::now() < end {
        let forks = if seed.is_multiple_of(2) { Forks::Some } else { Forks::None };
        steps += run(seed, Duration::from_secs(2), forks);
        (seed, worlds) = (seed + 1, worlds + 1);
    }
    println!("{worlds} worlds, {steps} steps");
}
