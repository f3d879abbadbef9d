//! Memory that several areas show, and when its frames go back.

use crate::mappings::support::{
    PAGE, PAGES, everywhere, fill, finish, forgotten, free, plain, shows, space, vunmap,
};
use vmalloc::{Protection, Request, Space, SpaceOptions};
use vmalloc_sim::Sim;

const RW: Protection = Protection::ReadWrite;

fn user(space: &Space<Sim>, pages: usize) -> usize {
    space.raw().alloc_shared(&Request::new(pages * PAGE)).expect("room")
}

fn remap(space: &Space<Sim>, addr: usize, pages: usize) -> usize {
    space.raw().map_shared(addr, pages * PAGE, RW, None).expect("room")
}

fn taken(space: &Space<Sim>) -> usize {
    space.platform().taken_frames().len()
}

/// Frames go back when the last of the areas was freed, in whatever order, and flushed.
#[test]
fn frames_go_back_when_the_last_area_is_freed_and_flushed() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        // Nothing is purged but when it is asked for.
        for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
            for flush in [Space::flush, Space::purge] {
                let space = space(plain(PAGES, 3), options);
                let addr = user(&space, 4);
                let areas = [addr, remap(&space, addr, 4), remap(&space, addr + PAGE, 2)];
                let words = fill(&space, addr, 4);
                areas.iter().zip([4, 4, 2]).for_each(|(&area, pages)| {
                    shows(&space, area, &words[usize::from(pages == 2)..][..pages]);
                });
                for (nth, which) in order.into_iter().enumerate() {
                    Sim::run_on(nth);
                    if which == 0 {
                        free(&space, areas[0]);
                    } else {
                        vunmap(&space, areas[which]);
                    }
                    assert_eq!(taken(&space), 4, "not flushed");
                    flush(&space).expect("nothing fails");
                    assert_eq!(taken(&space), if nth < 2 { 4 } else { 0 }, "after {} areas", nth + 1);
                    forgotten(&space, areas[which], 2);
                }
                finish(&space);
            }
        }
    }
}

#[test]
fn many_frame_sets_go_back_in_one_flush() {
    everywhere(|space| {
        let areas: Vec<usize> = (0..40).map(|nth| user(space, 1 + nth % 3)).collect();
        let shown: Vec<usize> = areas.iter().map(|&addr| remap(space, addr, 1)).collect();
        shown.iter().for_each(|&addr| _ = fill(space, addr, 1));
        areas.iter().for_each(|&addr| free(space, addr));
        space.purge().expect("nothing fails");
        assert_eq!(taken(space), (0..40).map(|nth| 1 + nth % 3).sum::<usize>(), "they are shown elsewhere");
        shown.iter().for_each(|&addr| vunmap(space, addr));
        space.purge().expect("nothing fails");
        assert_eq!(taken(space), 0);
    });
}

#[test]
fn frames_of_freed_areas_are_reused() {
    let space = space(plain(PAGES, 2).frames(8), SpaceOptions::default());
    let addr = user(&space, 6);
    fill(&space, addr, 6);
    free(&space, addr);
    let again = user(&space, 6);
    shows(&space, again, &[0; 6]);
    free(&space, again);
    finish(&space);
}

#[test]
fn cached_memory_is_evicted_for_frames() {
    let space = space(plain(PAGES, 2).frames(8), SpaceOptions::default());
    let memory = space.raw().alloc(&Request::new(6 * PAGE)).expect("room");
    fill(&space, memory, 6);
    free(&space, memory);
    let addr = user(&space, 6);
    free(&space, addr);
    finish(&space);
}
