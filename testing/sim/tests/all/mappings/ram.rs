//! Short mappings: slots of blocks, areas of their own, and what is mapped already.

use crate::mappings::support::{
    PAGE, everywhere, fill, finish, give, kind, machines, page, plain, shows, space, take, take_run,
    unmap_ram,
};
use crate::short;
use vmalloc::{Kind, MapFrames, Protection, Space, SpaceOptions};
use vmalloc_harness::Told;
use vmalloc_sim::Sim;

#[test]
fn blocks_come_back_when_memory_needs_their_addresses() {
    everywhere(256, |space| {
        // On machines that replace, recycled blocks come back later.
        if space.geometry().remaps_atomically {
            return;
        }
        let frames = take(space, 2);
        let mapped: Vec<usize> = std::iter::from_fn(|| short(space).map(&frames).ok()).collect();
        assert!(mapped.len() >= 32, "{} mappings", mapped.len());
        mapped.iter().for_each(|&addr| unmap_ram(space, addr, 2));
        let request = vmalloc::Request::new(255 * PAGE);
        let memory = space.raw().alloc(&request).expect("nothing is mapped any more");
        assert_eq!(page(memory), space.geometry().span.start());
        fill(space, memory, 255);
        crate::mappings::support::free(space, memory);
        give(space, &frames);
    });
}

fn linear_space() -> Space<Sim> {
    space(plain(1024, 3).linear(0x10_0000), SpaceOptions::default())
}

#[test]
fn consecutive_frames_use_the_linear_map() {
    let space = linear_space();
    let (frames, linear) = (take_run(&space, 100), space.geometry().linear_map.expect("it has one"));
    for count in [1, 7, 64, 100] {
        let before = space.platform().counts();
        let addr = short(&space).map(&frames[..count]).expect("they are there");
        assert_eq!(page(addr), linear.start() + frames[0].0);
        let words = fill(&space, addr, count);
        Sim::run_on(1);
        unmap_ram(&space, addr, count);
        Sim::run_on(0);
        assert_eq!(space.platform().counts(), before, "the machine was asked for nothing");
        shows(&space, addr, &words);
    }
    assert_eq!(space.stats().busy_areas, 0);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn mappings_of_one_frame_agree_in_length_or_are_ordinary() {
    let space = linear_space();
    let frames = take_run(&space, 4);
    let [first, second] = [0; 2].map(|_| short(&space).map(&frames).expect("there"));
    let other = short(&space).map(&frames[..3]).expect("room");
    assert_eq!((second, kind(&space, other)), (first, Some(Kind::Tenant)));
    let words = fill(&space, first, 4);
    shows(&space, other, &words[..3]);
    unmap_ram(&space, other, 3);
    unmap_ram(&space, first, 4);
    unmap_ram(&space, second, 4);
    let other = short(&space).map(&frames[..3]).expect("there");
    assert_eq!(other, first, "no other mapping begins at this frame");
    unmap_ram(&space, other, 3);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn addresses_without_frames_are_the_callers_to_map() {
    for options in machines(1024) {
        let _told = Told(|| format!("{options:?}"));
        let space = space(options.clone(), SpaceOptions::default());
        if space.geometry().remaps_atomically {
            continue;
        }
        let frames = take(&space, 4);
        for round in 0..80 {
            let addr = short(&space).reserve(4).expect("room");
            let range = crate::mappings::support::pages(addr, 4);
            // SAFETY: the slots were just obtained, and the frames taken.
            unsafe { space.platform().map_frames(range, &frames, Protection::ReadWrite) }.expect("room");
            fill(&space, addr, 4);
            // SAFETY: nothing uses the mapping any more.
            unsafe { space.platform().discard_hint(range) };
            Sim::run_on(round);
            // SAFETY: nothing uses the addresses any more.
            unsafe { short(&space).unreserve(addr, 4) }.expect("it was handed out");
        }
        give(&space, &frames);
        finish(&space);
    }
}
