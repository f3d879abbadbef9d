//! The kinds of worlds.

use crate::dice::Dice;
use crate::life::Forks;
use crate::pools::{heap, slots, stacks};
use crate::world;
use std::time::Duration;

/// A kind of worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All owners of a space.
    Api,
    /// A pool of slots.
    Slots,
    /// A pool of stacks.
    Stacks,
    /// Allocators of large blocks.
    Heap,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Api, Self::Slots, Self::Stacks, Self::Heap];

    /// Returns the kinds that a word names: one, or `all`.
    #[must_use]
    pub fn named(word: &str) -> Option<Vec<Self>> {
        if word == "all" {
            return Some(Self::ALL.to_vec());
        }
        let kind = Self::ALL.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(word))?;
        Some(vec![kind])
    }

    /// Runs the world of a seed for about `time`. Returns how many steps its threads made; 0 for
    /// options that this kernel refuses.
    ///
    /// # Panics
    /// When something does not hold. The options and the seed are printed before.
    #[must_use]
    pub fn run(self, seed: u64, time: Duration, forks: Forks) -> u64 {
        println!("world {self:?} {seed:#x}, forks: {forks:?}");
        let dice = &mut Dice::new(seed);
        match self {
            Self::Api => world::run(dice, time, forks),
            Self::Slots => slots::run(dice, time, forks),
            Self::Stacks => stacks::run(dice, time, forks),
            Self::Heap => heap::run(dice, time, forks),
        }
    }
}
