//! `vmap`: aliases, guards, and what is left behind.

use super::*;
use vmalloc::Protection;

fn vmap(space: &Space<Linux>, frames: &[Frame]) -> usize {
    space.raw().map(frames, Protection::ReadWrite, None).unwrap()
}

/// Rounds of mapping and unmapping leave no mapping of the kernel's behind.
#[test]
fn purged_areas_cost_no_mappings() {
    in_both_modes(SpaceOptions::default(), |space| {
        let frames = take_scattered(space, 200);
        let before = crate::common::mappings(space.platform());
        for _ in 0..3 {
            let addrs: Vec<_> = frames.chunks(7).map(|part| vmap(space, part)).collect();
            assert!(crate::common::mappings(space.platform()) >= before + 200);
            addrs.iter().for_each(|addr| vunmap(space, *addr));
            space.purge().unwrap();
            assert!(crate::common::mappings(space.platform()) <= before + OPEN_CHUNKS);
        }
        give(space, &frames);
    });
}
