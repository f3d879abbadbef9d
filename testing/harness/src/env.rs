//! Seeds and lengths of random tests, from the environment.
//!
//! `VMALLOC_SEED` (decimal or `0x…`) repeats a run that failed. `VMALLOC_EFFORT=10` makes all
//! random tests ten times as long; `VMALLOC_OPS` sets the length of programs, `VMALLOC_SECONDS`
//! that of tests that go by time, and `VMALLOC_SCHEDULES` that of explorations.

use std::env;

/// Returns the seed to use: `VMALLOC_SEED`, or else `default`.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn seed(default: u64) -> u64 {
    number("VMALLOC_SEED").unwrap_or(default)
}

/// Returns how many times as much random tests do as by default: `VMALLOC_EFFORT`, or else 1.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn effort() -> usize {
    number("VMALLOC_EFFORT").map_or(1, |effort| effort as usize)
}

/// Returns the number of operations to run: `VMALLOC_OPS`, or else `default` times the effort.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn ops(default: usize) -> usize {
    number("VMALLOC_OPS").map_or(default * effort(), |ops| ops as usize)
}

/// Returns the seconds that a random test may take: `VMALLOC_SECONDS`, or else `default` times
/// the effort.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn seconds(default: u64) -> u64 {
    number("VMALLOC_SECONDS").unwrap_or(default * effort() as u64)
}

/// Returns what a test asks for of something that takes addresses: `most`, and a part of it with
/// 32 bits, where a program has 4 GiB in all.
#[must_use]
pub const fn addresses(most: usize) -> usize {
    if usize::BITS < 64 { most / 16 } else { most }
}

/// Returns the number of schedules to explore: `VMALLOC_SCHEDULES`, or else `default`
/// times the effort.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn schedules(default: usize) -> usize {
    number("VMALLOC_SCHEDULES").map_or(default * effort(), |schedules| schedules as usize)
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(parse(&text).unwrap_or_else(|| panic!("{name}={text} is not a number")))
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
