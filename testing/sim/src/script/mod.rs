//! Byte strings as programs on a simulated machine: what a fuzzer drives, and what tests replay.
//!
//! A script plays any bytes to the end. It makes and ends mappings of every kind on several CPUs,
//! lets steps of the machine fail, and compares what each page shows with a naive model; the
//! machine judges every call. In the end all is freed, and nothing may be left. It panics when
//! anything is wrong.

mod direct;
mod model;
mod play;
mod settings;

pub use direct::direct;

use play::{Player, Weights};

/// Mappings of every kind, for the most part made and ended.
pub fn family(input: &[u8]) {
    Player::play(input, Weights::FAMILY);
}

/// Plays a program that mostly reads: [`read`](vmalloc::Space::read) of any addresses.
pub fn vread(input: &[u8]) {
    Player::play(input, Weights::VREAD);
}

/// Choices from bytes; zeros when there are no more.
#[derive(Debug)]
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> usize {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        (*byte).into()
    }

    /// Returns a number below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        let high = if bound > 256 { self.byte() << 8 } else { 0 };
        (high + self.byte()) % bound
    }
}
