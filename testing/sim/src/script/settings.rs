//! Machines and settings, a bit of a byte for each choice.

use crate::{Discard, Options, Sim};
use vmalloc::{Config, PageRange, Policy};

pub(super) const START: u64 = 0x10_0003;
pub(super) const PAGES: u64 = 2048;
pub(super) const CPUS: usize = 3;

pub(super) fn machine_of(choice: u8) -> Sim {
    let span = PageRange::from_len(START, PAGES).expect("not empty");
    let mut options = Options::new(span).cpus(CPUS);
    if choice & 1 != 0 {
        options = options.remaps_atomically();
    }
    if choice & 2 != 0 {
        options = options.discard(Discard::Keeps);
    }
    if choice & 4 != 0 {
        options = options.linear(START + 2 * PAGES);
    }
    if choice & 8 != 0 {
        options = options.tlb_entries(8);
    }
    if choice & 16 != 0 {
        options = options.frames(120);
    }
    options.build()
}

pub(super) fn config_of(choice: u8) -> Config {
    let mut config = Config::default().block_slots(64).lazy_max_pages(u64::from(choice >> 5) * 16);
    config.guard = choice & 4 == 0;
    if choice & 8 != 0 {
        config = config.unmap_on_free();
    }
    if choice & 16 != 0 {
        config = config.policy(Policy::Highest);
    }
    config
}
