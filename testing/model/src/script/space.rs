//! The space against its oracle, on the null platform.

use crate::Bytes;
use crate::space::{NullPlatform, NullWitness, SpaceGenerator, SpaceSession};
use vmalloc::{Config, PageRange, Policy, Space};

/// Three bytes choose settings, the rest is the program.
pub fn space(input: &[u8]) {
    let [order, retain, other, program @ ..] = input else { return };
    let span = PageRange::from_len(0x7_0003, 1 << (4 + order % 20)).expect("not empty");
    let config = config(*retain, *other);
    let space =
        Space::new(NullPlatform::new(span, 1 + usize::from(other % 5)), config).expect("an empty space");
    let generator =
        SpaceGenerator::new(Bytes::new(program), span, NullPlatform::PAGE_SHIFT).faults(other & 15);
    let result = SpaceSession::new(space, NullWitness).run(generator, usize::MAX);
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

fn config(retain: u8, other: u8) -> Config {
    let mut config = Config::default();
    config.cache_bytes = Some(usize::from(retain) << 14);
    config.guard = other & 16 == 0;
    config.lazy_max_pages = u64::from(other >> 5);
    if retain % 16 == 15 {
        config.policy = Policy::Random { seed: other.into() };
    }
    if retain % 16 == 14 {
        config.policy = Policy::Highest;
    }
    config
}
