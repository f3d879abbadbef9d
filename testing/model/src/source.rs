//! Where the choices of a generated program come from: a seed, a fuzzer's bytes, or a list of
//! numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of choices. Zero is always the simplest choice, so that a shrinker knows which way to
/// go.
pub trait Source: Send {
    /// Returns the next `bits` bits, as a number; at most 64.
    fn bits(&mut self, bits: u32) -> u64;

    /// Returns whether only zeros are left.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// Returns a number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64 {
        match bound - 1 {
            0 => 0,
            max => self.bits(u64::BITS - max.leading_zeros()) % bound,
        }
    }

    /// Returns a number from `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        match (high - low).checked_add(1) {
            Some(bound) => low + self.below(bound),
            None => self.bits(64),
        }
    }

    /// Returns true about `share` times in 256.
    fn chance(&mut self, share: u8) -> bool {
        // The comparison is turned around so that a source of zeros says no.
        share != 0 && self.bits(8) >= 256 - u64::from(share)
    }

    /// Returns a number from `2^low` to `2^(high + 1) - 1`, every order of magnitude as likely as
    /// every other. Powers of two and their neighbours, where mistakes live, come more often than
    /// that.
    fn magnitude(&mut self, low: u32, high: u32) -> u64 {
        let order = self.between(u64::from(low), u64::from(high)) as u32;
        let power = 1u64 << order;
        match self.below(8) {
            0 => power,
            1 => power + power / 2,
            2 => power + (power - 1),
            _ => power + self.below(power),
        }
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    fn bits(&mut self, bits: u32) -> u64 {
        (**self).bits(bits)
    }

    fn is_exhausted(&self) -> bool {
        (**self).is_exhausted()
    }
}

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Seeded(SplitMix64);

impl Seeded {
    /// Returns the stream that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Source for Seeded {
    fn bits(&mut self, bits: u32) -> u64 {
        if bits == 0 { 0 } else { self.next_u64() >> (64 - bits) }
    }
}

/// A fuzzer's bytes: each choice takes as few of them as it needs, little end first.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns a source of all of `bytes`, then zeros.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Source for Bytes<'_> {
    fn bits(&mut self, bits: u32) -> u64 {
        let (taken, rest) = self.0.split_at((bits.div_ceil(8) as usize).min(self.0.len()));
        self.0 = rest;
        let value = taken.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        if bits == 64 { value } else { value & ((1 << bits) - 1) }
    }

    fn is_exhausted(&self) -> bool {
        self.0.is_empty()
    }
}

/// A list of numbers, one a choice: what a property-test library shrinks best.
#[derive(Clone, Debug)]
pub struct Words<'a>(&'a [u64]);

impl<'a> Words<'a> {
    /// Returns a source of all of `words`, then zeros.
    pub const fn new(words: &'a [u64]) -> Self {
        Self(words)
    }
}

impl Source for Words<'_> {
    fn bits(&mut self, bits: u32) -> u64 {
        let Some((&word, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        if bits == 64 { word } else { word & ((1 << bits) - 1) }
    }

    fn is_exhausted(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_little_end_first_and_only_as_needed() {
        let mut bytes = Bytes::new(&[0xff, 0x34, 0x12, 7]);
        assert_eq!(bytes.bits(4), 0xf);
        assert_eq!(bytes.bits(16), 0x1234);
        assert_eq!(bytes.below(8), 7);
        assert!(bytes.is_exhausted());
        assert_eq!(bytes.bits(64), 0);
    }

    #[test]
    fn every_choice_stays_in_its_bounds() {
        let mut seeded = Seeded::new(1);
        for _ in 0..1000 {
            assert!(seeded.below(7) < 7);
            assert!((3..=5).contains(&seeded.between(3, 5)));
            assert!((4..16).contains(&seeded.magnitude(2, 3)));
            seeded.between(0, u64::MAX);
            seeded.magnitude(0, 63);
        }
    }

    #[test]
    fn exhausted_source_answers_no() {
        assert!(!Words::new(&[]).chance(255));
    }
}
