//! Blocks on machines whose mappings replace what was there: their slots are handed out again
//! without a flush, but not to others.

use crate::PAGE;
use crate::mappings::support::{PAGES, fill, finish, free, give, plain, space, take, unmap_ram};
use crate::{set_block_slots, short};
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_sim::Sim;

fn replacing(pages: u64, options: SpaceOptions) -> Space<Sim> {
    let space = space(plain(pages, 2).remaps_atomically(), options);
    set_block_slots(&space, 64);
    space
}

#[test]
fn returned_block_is_clean_after_a_purge() {
    let space = replacing(PAGES, SpaceOptions::default());
    let frames = take(&space, 2);
    let addr = short(&space).map(&frames).expect("room");
    fill(&space, addr, 2);
    unmap_ram(&space, addr, 2);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn slots_returned_after_a_purge_are_flushed_before_reuse() {
    let space = replacing(128, SpaceOptions::default());
    let frames = take(&space, 64);
    // All slots of a block, so that its window is used up.
    let addr = short(&space).map(&frames).expect("room");
    fill(&space, addr, 64);
    let other = short(&space).map(&frames).expect("room");
    space.purge().expect("nothing fails");
    unmap_ram(&space, addr, 64);
    space.purge().expect("nothing fails");
    let request = Request::new(64 * PAGE).guard(false);
    let memory = space.raw().alloc(&request).expect("the block is given back");
    fill(&space, memory, 64);
    free(&space, memory);
    unmap_ram(&space, other, 64);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn small_purge_releases_no_unflushed_block() {
    let space = replacing(PAGES, SpaceOptions::default().unmap_on_free().lazy_max_pages(1));
    let frames = take(&space, 64);
    let addr = short(&space).map(&frames).expect("room");
    let other = short(&space).map(&frames[..2]).expect("room");
    fill(&space, addr, 64);
    space.purge().expect("nothing fails");
    unmap_ram(&space, addr, 64);
    // Frees so much that a purge is due.
    let memory = space.raw().alloc(&Request::new(300 * PAGE)).expect("room");
    fill(&space, memory, 300);
    free(&space, memory);
    // A new area where the block was.
    let range = (addr, addr + 64 * PAGE);
    if let Ok(memory) = space.raw().alloc(&Request::new(64 * PAGE).guard(false).within(range.0, range.1)) {
        fill(&space, memory, 64);
        free(&space, memory);
    }
    unmap_ram(&space, other, 2);
    give(&space, &frames);
    finish(&space);
}

#[test]
fn clean_slots_without_a_flush_are_flushed_on_request() {
    let space = space(plain(1 << 15, 2).remaps_atomically(), SpaceOptions::default());
    set_block_slots(&space, 1024);
    let frames = take(&space, 64);
    // Twelve blocks full.
    let mapped: Vec<usize> = (0..12 * 16).map(|_| short(&space).map(&frames).expect("room")).collect();
    space.purge().expect("nothing fails");
    let (kept, gone): (Vec<_>, Vec<_>) = mapped.into_iter().enumerate().partition(|(nth, _)| nth % 16 == 0);
    gone.iter().for_each(|&(_, addr)| {
        fill(&space, addr, 64);
        unmap_ram(&space, addr, 64);
    });
    // There is no window: what was returned is made clean.
    let next = short(&space).map(&frames).expect("room");
    space.flush().expect("nothing fails");
    let gone = gone.into_iter().map(|(_, addr)| addr).filter(|&addr| addr != next);
    gone.for_each(|addr| crate::mappings::support::forgotten(&space, addr, 64));
    kept.into_iter().for_each(|(_, addr)| unmap_ram(&space, addr, 64));
    unmap_ram(&space, next, 64);
    give(&space, &frames);
    finish(&space);
}
