//! Counts what a space keeps and gives back: twelve loads, exact on every machine.
//!
//! One thread plays all CPUs, in an order that is drawn from a seed, on page tables that only
//! count. A drain comes when the space asks for one, and by age after each so many calls:
//!
//! ```text
//!   calls      1 … 20,000        | 20,001 … 40,000   | …
//!                     ▲ asked    ▲ by age            ▲ by age
//! ```
//!
//! There is no time in it, so every row repeats to the last digit.

mod loads;
mod played;
mod stage;

pub use loads::{LOADS, Load};

use serde::Serialize;
use stage::Stage;

/// The calls between two drains by age: often, and rarely.
pub const DRAIN_RATES: [u64; 2] = [20_000, 200_000];

/// The counts of one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The load, the calls between two drains, and whether areas have guard pages.
    pub row: String,
    /// Pages that were mapped and had no memory before, for each pair of an allocation and a free.
    pub fresh: f64,
    /// The most pages with memory, over the most in use.
    pub memory: f64,
    /// The pages from the start of the space to the highest page in use, over the most in use.
    pub span: f64,
    /// Ranges that the platform mapped or unmapped, for each pair.
    pub calls: f64,
}

/// Plays all loads, at both rates of drains, with and without guard pages.
///
/// # Panics
/// When the space refuses a call or is damaged.
pub fn run() -> Vec<Row> {
    let plays = DRAIN_RATES.into_iter().flat_map(|rate| [true, false].map(|guards| (rate, guards)));
    plays.flat_map(|(rate, guards)| LOADS.iter().map(move |load| play(load, rate, guards))).collect()
}

fn play(load: &Load, drain_every: u64, guards: bool) -> Row {
    let mut stage = Stage::new(load, drain_every, guards);
    (load.play)(&mut stage);
    let guards = if guards { "guards" } else { "no guards" };
    stage.end(format!("{}, {drain_every}, {guards}", load.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_repeats() {
        assert_eq!(play(&LOADS[3], DRAIN_RATES[0], true), play(&LOADS[3], DRAIN_RATES[0], true));
    }

    #[test]
    fn a_load_that_keeps_what_it_has_is_mapped_once() {
        let keeps = Load {
            name: "keeps",
            cpus: 1,
            is_dear: true,
            play: |stage| {
                let areas: Vec<_> = (0..100).map(|_| stage.alloc(10)).collect();
                areas.into_iter().for_each(|area| stage.free(area));
            },
        };
        let row = play(&keeps, 1 << 40, false);
        assert_eq!((row.fresh, row.memory, row.calls), (10.0, 1.0, 1.0));
        assert!((1.0..1.01).contains(&play(&keeps, 1 << 40, false).span));
        assert_eq!(play(&keeps, 1 << 40, true).span, 1.1);
    }
}
