//! Runs worlds one after the other for so many seconds, half of them with forks: of all kinds in
//! turn,
//! or of one. `VMALLOC_SEED` chooses the first.

use std::time::{Duration, Instant};
use vmalloc_worlds::{Forks, Kind};

fn main() {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().map_or(60, |text| text.parse().expect("a number of seconds"));
    let kind = words.next().unwrap_or_else(|| "all".to_owned());
    let kinds = Kind::named(&kind).expect("api, slots, stacks, heap or all");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut worlds, mut steps) = (vmalloc_model::env::seed(1), 0_u64, 0);
    while Instant::now() < end {
        let forks = if seed.is_multiple_of(2) { Forks::Some } else { Forks::None };
        for kind in &kinds {
            steps += kind.run(seed, Duration::from_secs(2), forks);
            worlds += 1;
        }
        seed += 1;
    }
    println!("{worlds} worlds, {steps} steps");
}
