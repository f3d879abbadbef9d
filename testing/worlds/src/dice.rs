//! Random choices.

use vmalloc_model::Seeded;

/// Random choices, which a seed repeats.
#[derive(Debug)]
pub struct Dice(pub(crate) Seeded);

impl Dice {
    /// Returns the dice of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end as u64) as usize
    }

    /// Returns true once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of `all`.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a size of an area in bytes: mostly small, mostly not whole pages.
    pub fn size(&mut self) -> usize {
        match self.below(12) {
            0..=4 => 1 + self.below(8 << 12),
            5..=7 => 1 + self.below(64 << 12),
            8 => (1 + self.below(260)) << 12,
            9 => (240 + self.below(40)) << 12,
            10 => 1 + self.below(4 << 20),
            _ => 1 + self.below(1 << 20),
        }
    }
}
