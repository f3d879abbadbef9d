//! `vm_map_ram`: mappings that live shortly.

use super::*;
use vmalloc::FrameSupply;

#[test]
fn consecutive_frames_are_mapped_already() {
    in_both_modes(SpaceOptions::default(), |space| {
        let first = space.platform().take_run(64, 1).unwrap();
        let run: Vec<_> = (0..64).map(|nth| first.plus(nth)).collect();
        let mappings = crate::common::mappings(space.platform());
        for len in [1, 4, 63, 64] {
            let addr = short(space).map(&run[..len]).unwrap();
            assert_eq!(addr, linear_addr(space, first));
            fill_from(addr, len, len as u8);
            assert_filled(addr, len, len as u8);
            unmap_ram(space, addr, len);
        }
        assert_eq!(crate::common::mappings(space.platform()), mappings);
        assert_eq!(space.stats().tenant_areas, 0);
        give(space, &run);
    });
}
