//! Seeded random numbers: the same seed gives the same run.

/// SplitMix64 (Steele, Lea and Flood, 2014): any seed is a good one, and a step is three multiplications.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one stream of `seed`: streams of a seed have nothing in common.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut seeder = Self(seed);
        let mixed = seeder.next() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(Self(mixed).next())
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero. The high half of a product: no division, and a bias of
    /// less than `bound` ÷ 2⁶⁴.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffles `items`: every order is equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_same_order_and_streams_differ() {
        let order = |seed, stream| {
            let mut items: Vec<u32> = (0..20).collect();
            Random::new(seed, stream).shuffle(&mut items);
            items
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut random = Random::new(7, 0);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
