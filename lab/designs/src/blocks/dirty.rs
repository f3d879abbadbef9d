//! Which slots of a block have been returned.

/// A record of the returned slots.
pub(super) trait Dirty: Send {
    /// Of a block of so many slots, none of them returned.
    fn new(slots: u64) -> Self;

    /// So many from one on are returned, which were not; how many are by now.
    fn mark(&mut self, slot: u64, slots: u64) -> u64;
}

/// A bit for each slot, until 2015.
#[derive(Debug)]
pub(super) struct Bits {
    words: Box<[u64]>,
    count: u64,
}

impl Dirty for Bits {
    fn new(slots: u64) -> Self {
        Self { words: vec![0; slots.div_ceil(64) as usize].into_boxed_slice(), count: 0 }
    }

    fn mark(&mut self, slot: u64, slots: u64) -> u64 {
        for bit in slot..slot + slots {
            self.words[bit as usize / 64] |= 1 << (bit % 64);
        }
        self.count += slots;
        self.count
    }
}

/// The lowest and the highest: what a flush has to reach, since 2015.
#[derive(Debug)]
pub(super) struct Reach {
    low: u64,
    high: u64,
    count: u64,
}

impl Dirty for Reach {
    fn new(slots: u64) -> Self {
        Self { low: slots, high: 0, count: 0 }
    }

    fn mark(&mut self, slot: u64, slots: u64) -> u64 {
        self.low = self.low.min(slot);
        self.high = self.high.max(slot + slots);
        self.count += slots;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_count_returned_slots() {
        let (mut bits, mut reach) = (Bits::new(256), Reach::new(256));
        for (slot, slots, count) in [(60, 8, 8), (0, 1, 9), (128, 128, 137)] {
            assert_eq!((bits.mark(slot, slots), reach.mark(slot, slots)), (count, count));
        }
        assert_eq!(bits.words.iter().map(|word| word.count_ones()).sum::<u32>(), 137);
        assert_eq!((bits.words[0], bits.words[1]), (0xf << 60 | 1, 0xf));
        assert_eq!((reach.low, reach.high), (0, 256));
    }
}
