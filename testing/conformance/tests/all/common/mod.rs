//! Simulated machines.
#![allow(dead_code)]

pub(crate) mod wrong;

use vmalloc::PageRange;
use vmalloc_sim::{Direct, Options, Sim};

/// A simulated machine with a word in each page.
pub(crate) fn sim(choose: impl FnOnce(Options) -> Options) -> Sim {
    let span = PageRange::new(0x1000, 0x1000 + (1 << 11)).expect("not empty");
    choose(Options::new(span).frames(1 << 12)).build()
}

/// A simulated machine with memory at its addresses.
pub(crate) fn direct(choose: impl FnOnce(Options) -> Options) -> Direct {
    Direct::new(1 << 11, choose)
}
