//! Congruent areas with frames in them.

use crate::mappings::support::{PAGE, everywhere, faults, fill, forgotten, give, kind, shows, take};
use vmalloc::{Frame, Kind, Protection, Space};
use vmalloc_sim::Sim;

const OFFSETS: [usize; 3] = [0, 32 * PAGE, 64 * PAGE];
const SIZES: [usize; 3] = [8 * PAGE; 3];

fn group(space: &Space<Sim>) -> usize {
    space.raw().alloc_congruent(&OFFSETS, &SIZES, 8 * PAGE).expect("room")
}

/// A chunk: pages from `from` on of every area.
fn populate(space: &Space<Sim>, base: usize, from: usize, frames: &[Frame]) {
    for (unit, frames) in OFFSETS.into_iter().zip(frames.chunks(frames.len() / OFFSETS.len())) {
        let addr = base + unit + from * PAGE;
        // SAFETY: nothing else maps there.
        unsafe { space.raw().map_pages(addr, frames, Protection::ReadWrite) }
            .expect("nothing is mapped there");
    }
}

fn depopulate(space: &Space<Sim>, base: usize, from: usize, count: u64) {
    for unit in OFFSETS {
        // SAFETY: nothing uses the pages any more.
        unsafe { space.raw().unmap_pages(base + unit + from * PAGE, count) }.expect("they are mapped");
    }
}

#[test]
fn chunks_are_populated_and_depopulated() {
    everywhere(|space| {
        let (frames, base) = (take(space, 12), group(space));
        assert_eq!(OFFSETS.map(|offset| kind(space, base + offset)), [Some(Kind::Percpu); 3]);
        populate(space, base, 0, &frames[..6]);
        populate(space, base, 4, &frames[6..]);
        let words = OFFSETS.map(|unit| fill(space, base + unit, 2));
        OFFSETS.iter().for_each(|unit| _ = fill(space, base + unit + 4 * PAGE, 2));
        OFFSETS.iter().for_each(|unit| faults(space, base + unit + 2 * PAGE, 2));
        depopulate(space, base, 4, 2);
        OFFSETS.iter().for_each(|unit| forgotten(space, base + unit + 4 * PAGE, 2));
        OFFSETS.iter().zip(&words).for_each(|(unit, words)| shows(space, base + unit, words));
        depopulate(space, base, 0, 2);
        give(space, &frames);
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().free_congruent(base, &OFFSETS, &SIZES) }.expect("it was made");
    });
}

#[test]
fn pages_left_in_a_group_are_unmapped_by_the_purge() {
    everywhere(|space| {
        let frames = take(space, 3);
        for _ in 0..3 {
            let base = group(space);
            populate(space, base, 7, &frames);
            OFFSETS.iter().for_each(|unit| _ = fill(space, base + unit + 7 * PAGE, 1));
            // SAFETY: nothing uses the addresses any more.
            unsafe { space.raw().free_congruent(base, &OFFSETS, &SIZES) }.expect("it was made");
            space.flush().expect("nothing fails");
            OFFSETS.iter().for_each(|unit| forgotten(space, base + unit, 8));
        }
        give(space, &frames);
    });
}
