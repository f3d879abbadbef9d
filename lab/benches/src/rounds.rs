//! Interleaved rounds: everything that is compared takes turns, a window each.
//!
//! Whatever else the machine does hits all of them alike, and the medians of the rounds are
//! compared.

use std::time::Duration;
use vmalloc_kit::clock::cpu_time;
use vmalloc_kit::stats::median;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The CPU time that a window should take.
    pub window: Duration,
}

/// Options of a program that measures in rounds.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct RoundsOptions {
    /// Print a list of objects instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Three short rounds: a look, not a measurement.
    #[arg(long)]
    pub quick: bool,
    /// Rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
}

impl RoundsOptions {
    /// Returns how much is measured.
    pub fn limits(&self) -> Limits {
        let rounds = if self.quick { 3 } else { usize::from(self.rounds) };
        Limits { rounds, window: Duration::from_millis(if self.quick { 10 } else { 60 }) }
    }
}

/// The most iterations of a window: requests may be drawn in advance and need memory.
const MOST_ITERATIONS: usize = 1 << 20;

/// Returns the CPU nanoseconds of `work`, system time included.
pub fn cpu_ns(work: impl FnOnce()) -> f64 {
    let before = cpu_time();
    work();
    (cpu_time() - before).as_nanos() as f64
}

/// Returns how many iterations take about as long as a window should, found by doubling.
///
/// `play` makes so many and returns the nanoseconds that they took.
pub fn pace(window: Duration, mut play: impl FnMut(usize) -> f64) -> usize {
    let target = window.as_nanos() as f64;
    let mut iterations = 8;
    loop {
        let spent = play(iterations);
        if spent >= target / 8.0 || iterations >= MOST_ITERATIONS {
            return ((iterations as f64 * target / spent.max(1.0)) as usize).clamp(1, MOST_ITERATIONS);
        }
        iterations *= 2;
    }
}

/// Plays each of `players` in every round, and returns the median of each: CPU nanoseconds of one
/// iteration.
///
/// A player is called with a number of iterations.
pub fn medians(players: &mut [Box<dyn FnMut(usize) + '_>], limits: &Limits) -> Vec<f64> {
    let iterations: Vec<_> = players
        .iter_mut()
        .map(|play| pace(limits.window, |iterations| cpu_ns(|| play(iterations))))
        .collect();
    let mut rounds = vec![Vec::new(); players.len()];
    for _ in 0..limits.rounds {
        for ((play, &iterations), rounds) in players.iter_mut().zip(&iterations).zip(&mut rounds) {
            rounds.push(cpu_ns(|| play(iterations)) / iterations as f64);
        }
    }
    rounds.iter().map(|rounds| median(rounds)).collect()
}
