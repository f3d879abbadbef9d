//! The random numbers of the workloads: deterministic, so that every allocator sees the same requests.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps per number.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    ///
    /// Multiply and shift (Lemire, 2019) without the rejection step: the bias is below `bound` / 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn between_reaches_both_ends_evenly() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 64];
        for _ in 0..64_000 {
            seen[rng.between(1, 64) as usize - 1] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
