//! Seeded random numbers: the same seed gives the same run.

use vmalloc_lab::rng::Rng;

/// The numbers of one stream of `seed`: streams of a seed have nothing in common.
pub(crate) fn stream(seed: u64, stream: u64) -> Rng {
    // Any odd number; this one is 2^64 by the golden ratio, as the generator's own step.
    let mixed = Rng::new(seed).next_u64() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Rng::new(Rng::new(mixed).next_u64())
}

#[cfg(test)]
mod tests {
    use super::stream;

    #[test]
    fn a_seed_gives_the_same_order_and_streams_differ() {
        let order = |seed, number| {
            let mut items: Vec<u32> = (0..20).collect();
            stream(seed, number).shuffle(&mut items);
            items
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }
}
