//! Short mappings: slots of blocks, areas of their own, and what is mapped already.

use crate::mappings::support::{
    PAGE, START, faults, fill, finish, forgotten, give, kind, machines, page, plain, shows, space, take,
    take_run, unmap_ram, with_blocks, with_blocks_in, write,
};
use vmalloc::{Config, Frame, FrameSupply, Kind, MapFrames, Protection, Space};
use vmalloc_sim::{Point, Sim};

/// Numbers of pages at which something changes.
const COUNTS: [usize; 8] = [1, 2, 3, 5, 31, 63, 64, 65];

#[test]
fn up_to_64_pages_get_slots_and_more_an_area_of_their_own() {
    with_blocks(|space| {
        let frames = take(space, 100);
        for count in COUNTS.into_iter().chain([100]) {
            let addr = space.raw().map_short(&frames[..count]).expect("room");
            fill(space, addr, count);
            let in_linear_map = space.geometry().linear_map.is_some() && count == 1;
            let expected = if count <= 64 { Kind::Block } else { Kind::ShortMap };
            assert_eq!(kind(space, addr), Some(expected).filter(|_| !in_linear_map));
            unmap_ram(space, addr, count);
        }
        space.purge().expect("nothing fails");
        give(space, &frames);
    });
}

#[test]
fn mappings_of_all_sizes_are_apart_and_show_their_frames() {
    with_blocks(|space| {
        let frames = take(space, COUNTS.iter().sum());
        let mut rest = &frames[..];
        let mapped = COUNTS.map(|count| {
            let own;
            (own, rest) = rest.split_at(count);
            let addr = space.raw().map_short(own).expect("room");
            let words = fill(space, addr, count);
            (addr, words)
        });
        mapped.iter().for_each(|(addr, words)| shows(space, *addr, words));
        for (nth, (addr, words)) in mapped.iter().enumerate().rev() {
            Sim::run_on(nth);
            unmap_ram(space, *addr, words.len());
        }
        space.purge().expect("nothing fails");
        give(space, &frames);
    });
}

#[test]
fn a_frame_may_be_mapped_twice_in_one_call_and_in_two() {
    with_blocks(|space| {
        let frames = take(space, 2);
        let addr = space.raw().map_short(&[frames[0], frames[1], frames[0]]).expect("room");
        let other = space.raw().map_short(&[frames[1], frames[0]]).expect("room");
        write(space, addr, 2, 6);
        write(space, other, 0, 4);
        shows(space, addr, &[6, 4, 6]);
        shows(space, other, &[4, 6]);
        unmap_ram(space, addr, 3);
        shows(space, other, &[4, 6]);
        unmap_ram(space, other, 2);
        give(space, &frames);
    });
}

/// Maps, remembers on every CPU, unmaps on another one, gives the frames back and takes others,
/// many times over.
fn come_and_go(space: &Space<Sim>, counts: &[usize], rounds: usize) {
    for round in 0..rounds {
        let count = counts[round % counts.len()];
        let frames = take(space, count);
        Sim::run_on(round);
        let addr = space.raw().map_short(&frames).expect("room");
        fill(space, addr, count);
        Sim::run_on(round + 1);
        unmap_ram(space, addr, count);
        give(space, &frames);
    }
}

#[test]
fn frames_may_be_given_back_as_soon_as_their_slots_are_returned() {
    with_blocks(|space| come_and_go(space, &[1, 3, 64, 17], 50));
}

#[test]
fn frames_may_be_given_back_as_soon_as_an_area_of_their_own_is_returned() {
    with_blocks(|space| come_and_go(space, &[65, 100], 6));
}

#[test]
fn slots_are_flushed_before_reuse() {
    for options in machines(1024) {
        let _context = crate::mappings::support::Context(&options);
        let config = Config::default().unmap_on_free().block_slots(64);
        let space = space(options.clone(), config);
        if space.geometry().remaps_atomically {
            continue;
        }
        // One that stays keeps its block from being spent.
        let kept = take(&space, 1);
        let addr = space.raw().map_short(&[kept[0]]).expect("room");
        let words = fill(&space, addr, 1);
        come_and_go(&space, &[1, 2, 4, 7], 300);
        shows(&space, addr, &words);
        unmap_ram(&space, addr, 1);
        give(&space, &kept);
        finish(&space);
    }
}

#[test]
fn no_tlb_holds_a_slot_after_flush_or_purge() {
    let calls: [fn(&Space<Sim>); 2] =
        [|space| space.flush().expect("nothing fails"), |space| space.purge().expect("nothing fails")];
    for call in calls {
        with_blocks(|space| {
            let frames = take(space, 9);
            let stays = space.raw().map_short(&frames[..4]).expect("room");
            let words = fill(space, stays, 4);
            let goes = space.raw().map_short(&frames[4..]).expect("room");
            fill(space, goes, 5);
            Sim::run_on(2);
            unmap_ram(space, goes, 5);
            call(space);
            forgotten(space, goes, 5);
            shows(space, stays, &words);
            unmap_ram(space, stays, 4);
            call(space);
            forgotten(space, stays, 4);
            give(space, &frames);
        });
    }
}

#[test]
fn a_slot_that_was_never_mapped_faults() {
    with_blocks(|space| {
        let frames = take(space, 3);
        let addr = space.raw().map_short(&frames).expect("room");
        fill(space, addr, 3);
        // Three pages take four slots.
        faults(space, addr + 3 * PAGE, 1);
        unmap_ram(space, addr, 3);
        give(space, &frames);
    });
}

#[test]
fn slots_are_returned_on_any_cpu() {
    with_blocks(|space| {
        let frames = take(space, 256);
        let mapped: Vec<usize> = frames
            .iter()
            .enumerate()
            .map(|(nth, frame)| {
                Sim::run_on(nth);
                space.raw().map_short(&[*frame]).expect("room")
            })
            .collect();
        for (nth, &addr) in mapped.iter().enumerate() {
            fill(space, addr, 1);
            Sim::run_on(nth + 1);
            unmap_ram(space, addr, 1);
        }
        give(space, &frames);
    });
}

#[test]
fn blocks_come_back_when_memory_needs_their_addresses() {
    with_blocks_in(256, |space| {
        let frames = take(space, 2);
        let mapped: Vec<usize> = std::iter::from_fn(|| space.raw().map_short(&frames).ok()).collect();
        assert!(mapped.len() >= 32, "{} mappings", mapped.len());
        mapped.iter().for_each(|&addr| unmap_ram(space, addr, 2));
        let request = vmalloc::Request::new(255 * PAGE);
        let memory = space.raw().alloc(&request).expect("nothing is mapped any more");
        assert_eq!(page(memory), START);
        fill(space, memory, 255);
        crate::mappings::support::free(space, memory);
        give(space, &frames);
    });
}

fn linear_space() -> Space<Sim> {
    space(plain(1024, 3).linear(0x10_0000), Config::default())
}

#[test]
fn consecutive_frames_use_the_linear_map() {
    let space = linear_space();
    let (frames, linear) = (take_run(&space, 100), space.geometry().linear_map.expect("it has one"));
    for count in [1, 7, 64, 100] {
        let before = space.platform().counts();
        let addr = space.raw().map_short(&frames[..count]).expect("they are there");
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
    let [first, second] = [0; 2].map(|_| space.raw().map_short(&frames).expect("there"));
    let other = space.raw().map_short(&frames[..3]).expect("room");
    assert_eq!((second, kind(&space, other)), (first, Some(Kind::Block)));
    let words = fill(&space, first, 4);
    shows(&space, other, &words[..3]);
    unmap_ram(&space, other, 3);
    unmap_ram(&space, first, 4);
    unmap_ram(&space, second, 4);
    let other = space.raw().map_short(&frames[..3]).expect("there");
    assert_eq!(other, first, "no other mapping begins at this frame");
    unmap_ram(&space, other, 3);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn runs_in_the_linear_map_overlap_as_they_like() {
    let space = linear_space();
    let frames = take_run(&space, 6);
    let addrs = [0, 1, 3].map(|nth| space.raw().map_short(&frames[nth..nth + 3]).expect("there"));
    assert_eq!(addrs.map(|addr| addr - addrs[0]), [0, PAGE, 3 * PAGE]);
    addrs.into_iter().for_each(|addr| unmap_ram(&space, addr, 3));
    give(&space, &frames);
    finish(&space);
}

#[test]
fn map_short_flushes_and_retries_when_mappings_run_out() {
    with_blocks(|space| {
        let frames = take(space, 2);
        let first = space.raw().map_short(&frames).expect("room");
        fill(space, first, 2);
        unmap_ram(space, first, 2);
        space.platform().fail_nth(Point::MapFrames, 1);
        let second = space.raw().map_short(&frames).expect("the second try is not made to fail");
        fill(space, second, 2);
        unmap_ram(space, second, 2);
        give(space, &frames);
    });
}

#[test]
fn addresses_without_frames_are_the_callers_to_map() {
    for options in machines(1024) {
        let _context = crate::mappings::support::Context(&options);
        let space = space(options.clone(), Config::default());
        if space.geometry().remaps_atomically {
            continue;
        }
        let frames = take(&space, 4);
        for round in 0..80 {
            let addr = space.raw().reserve_short(4).expect("room");
            let range = crate::mappings::support::pages(addr, 4);
            // SAFETY: the slots were just obtained, and the frames taken.
            unsafe { space.platform().map_frames(range, &frames, Protection::ReadWrite) }.expect("room");
            fill(&space, addr, 4);
            // SAFETY: nothing uses the mapping any more.
            unsafe { space.platform().discard_hint(range) };
            Sim::run_on(round);
            // SAFETY: nothing uses the addresses any more.
            unsafe { space.raw().unreserve_short(addr, 4) }.expect("it was handed out");
        }
        give(&space, &frames);
        finish(&space);
    }
}

#[test]
fn a_mapping_of_the_whole_supply_is_possible() {
    let space = space(plain(1024, 2).frames(300), Config::default());
    let mut frames = vec![Frame(0); 300];
    space.platform().take_frames(&mut frames).expect("all");
    let addr = space.raw().map_short(&frames).expect("room");
    fill(&space, addr, 300);
    unmap_ram(&space, addr, 300);
    space.purge().expect("nothing fails");
    give(&space, &frames);
    finish(&space);
}
