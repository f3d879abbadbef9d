//! Mappings of the caller's frames, and of devices.

use crate::mappings::support::{everywhere, fill, forgotten, give, take, vunmap};
use vmalloc::Protection;
use vmalloc_sim::Point;

const RW: Protection = Protection::ReadWrite;

#[test]
fn map_purges_when_mappings_run_out() {
    everywhere(|space| {
        let frames = take(space, 2);
        let first = space.raw().map(&frames, RW, None).expect("room");
        fill(space, first, 2);
        vunmap(space, first);
        space.platform().fail_nth(Point::MapFrames, 1);
        let second = space.raw().map(&frames, RW, None).expect("the second try is not made to fail");
        forgotten(space, first, usize::from(first != second) * 2);
        fill(space, second, 2);
        vunmap(space, second);
        give(space, &frames);
    });
}
