//! Safe code with owned types: frames stay taken while anything shows them, and no page is touched
//! that is not there.

use crate::{PAGE, free};
use crate::{set_block_slots, short};
use vmalloc::{
    AreaError, Frame, FrameSupply, Frames, FreeError, Mapping, PageRange, PagedArea, Protection, Request,
    Space, SpaceOptions,
};
use vmalloc_short::ShortMapping;
use vmalloc_sim::{Discard, Options, Point, Sim, TlbVisibility};
use vmalloc_subspaces::Root;

fn sim(pages: u64) -> Sim {
    Sim::run_on(0);
    let span = PageRange::from_len(0x1000, pages).expect("not empty");
    Options::new(span).cpus(2).frames(4096).seed(1).discard(Discard::Keeps).build()
}

fn space(space_options: SpaceOptions) -> Space<Sim> {
    Space::new(sim(1 << 12), space_options).expect("an empty space")
}

fn pages(count: usize) -> Request {
    Request::new(count * PAGE)
}

/// Where two spaces have one supply, the frames of one must not end in the books of the other.
#[test]
fn a_paged_area_refuses_frames_of_another_space() {
    let root = Root::new(sim(1 << 12)).expect("an empty root");
    let at = |name| root.subspace(name, &Request::new(1 << 20), None, Default::default()).expect("room");
    let (one, other) = (at("one"), at("other"));
    let frames = one.frames(1).expect("there are many");
    let mapping = Mapping::new(&frames).expect("room");
    let others = other.frames(1).expect("there are many");
    for _ in 0..2 {
        let mut area = PagedArea::new(&one, &pages(4)).expect("room");
        let refused = area.map(0, &others, Protection::ReadWrite);
        assert_eq!(refused, Err(AreaError::ForeignFrames));
        assert!(area.map(PAGE, &frames, Protection::ReadWrite).is_ok());
        drop(area);
        one.purge().expect("no fault was asked for");
    }
    assert_eq!(root.platform().taken_frames().len(), 2, "those of the mapping, and the others");
    drop((mapping, frames, others));
}

/// A purge that leaves returned slots mapped leaves their frames taken.
#[test]
fn frames_of_a_short_mapping_wait_for_the_flush_of_its_slots() {
    let space_options = SpaceOptions::default().unmap_on_free().lazy_max_pages(8);
    let space = space(space_options);
    set_block_slots(&space, 64);
    let frames = space.frames(2).expect("there are many");
    let short = short(&space);
    let mapping = ShortMapping::new(&short, &frames).expect("room");
    let page = (mapping.addr() / PAGE) as u64;
    let slots = PageRange::from_len(page, 2).expect("two");
    (0..2).for_each(|cpu| space.platform().prefetch(cpu, slots));
    drop((mapping, frames));
    let purges = space.stats().purges;
    // It passes the threshold, so the free purges.
    free(&space, space.raw().alloc(&pages(40)).expect("room"));
    assert!(space.stats().purges > purges);
    let is_reached = space.platform().look(1, page) != TlbVisibility::Nothing;
    assert!(is_reached, "this plan flushes the slots as well: the test needs another one");
    assert_eq!(space.platform().taken_frames().len(), 2);
    space.flush().expect("no fault was asked for");
    assert_eq!(space.platform().look(1, page), TlbVisibility::Nothing);
    assert!(space.platform().taken_frames().is_empty());
}

/// Pages that the machine refuses to unmap may show frames: a refused block those of any short
/// mapping that was returned, an area of its own those of a long one, or those mapped in it.
#[test]
fn frames_wait_for_what_is_refused() {
    type Shows = for<'a> fn(&'a Space<Sim>, Frames<&'a Space<Sim>>) -> usize;
    let shows: [(usize, Shows); 3] = [
        (2, |space, frames| ShortMapping::new(&short(space), &frames).expect("room").addr()),
        (65, |space, mut frames| {
            frames.swap(0, 64);
            ShortMapping::new(&short(space), &frames).expect("room").addr()
        }),
        (2, |space, frames| {
            let mut area = PagedArea::new(space, &pages(8)).expect("room");
            area.map(3 * PAGE, &frames, Protection::ReadWrite).expect("nothing is there")
        }),
    ];
    for (count, show) in shows {
        let space = space(SpaceOptions::default().unmap_on_free());
        set_block_slots(&space, 64);
        let addr = show(&space, space.frames(count).expect("there are many"));
        let shown = PageRange::from_len((addr / PAGE) as u64, count as u64).expect("not empty");
        space.platform().refuse(Point::Unmap, shown);
        assert!(space.flush().is_err());
        assert_eq!(space.platform().taken_frames().len(), count);
        space.platform().relent();
        space.flush().expect("the machine has relented");
        assert!(space.platform().taken_frames().is_empty());
    }
}

/// Where nothing decays, a purge because much is lazy flushes returned slots now and then.
#[test]
fn frames_of_short_mappings_do_not_wait_for_ever() {
    let space = space(SpaceOptions::default().unmap_on_free().lazy_max_pages(8));
    set_block_slots(&space, 64);
    for _ in 0..3_000 {
        let frames = space.frames(1).expect("there are many");
        drop(ShortMapping::new(&short(&space), &frames).expect("room"));
        drop(frames);
        free(&space, space.raw().alloc(&pages(40)).expect("room"));
    }
    let taken = space.platform().taken_frames().len();
    assert!(taken <= 1_100, "{taken} frames wait");
}

#[test]
fn a_sub_space_that_goes_gives_all_frames_back() {
    let root = Root::new(sim(1 << 12)).expect("an empty root");
    let space = root.subspace("a", &Request::new(1 << 20), None, Default::default()).expect("room");
    let frames = space.frames(4).expect("there are many");
    drop(Mapping::new(&frames).expect("room"));
    drop(frames);
    let shared = space.raw().alloc_shared(&pages(4)).expect("room");
    // SAFETY: nothing uses it.
    unsafe { space.raw().free(shared) }.expect("it is busy");
    assert_eq!(root.platform().taken_frames().len(), 8);
    drop(space);
    assert!(root.platform().taken_frames().is_empty());
}

/// Blocks are found wherever they lie, on the largest spans as well.
#[test]
fn short_mappings_go_on_beyond_a_tebibyte_of_areas() {
    let space = Space::new(sim(1 << 34), SpaceOptions::default()).expect("an empty space");
    let mut frames = [Frame(0); 2];
    space.platform().take_frames(&mut frames).expect("there are many");
    // All of the span's second half, where the first blocks lie, but for its end.
    let span = space.geometry().span;
    let [half, end] = [span.start() + span.len() / 2, span.end()].map(|page| page as usize * PAGE);
    let half = Request::new(31 << 40).within(half, end);
    let reserved = space.raw().reserve(&half).expect("room");
    let addr = short(&space).map(&frames).expect("there is room behind");
    // SAFETY: nothing uses the mapping.
    unsafe { short(&space).unmap(addr, 2) }.expect("it is mapped");
    // SAFETY: nothing is mapped there.
    unsafe { space.raw().unreserve(reserved) }.expect("it is busy");
    space.purge().expect("no fault was asked for");
    // SAFETY: nothing shows them any more.
    unsafe { space.platform().give_frames(&frames) };
}

/// A commit that may not wait refuses pages that have still to be unmapped, and never purges.
#[test]
fn a_commit_that_may_not_wait_does_not() {
    let space = space(SpaceOptions::default());
    let mut area = PagedArea::new(&space, &pages(64)).expect("room");
    let (addr, page) = (area.addr(), (area.addr() / PAGE) as u64);
    area.try_commit(0..8 * PAGE).expect("nothing is committed");
    assert_eq!(area.try_commit(0..PAGE), Err(AreaError::Mapped { addr }));
    space.platform().refuse(Point::Unmap, PageRange::from_len(page + 3, 1).expect("one"));
    assert!(area.decommit(2 * PAGE..4 * PAGE).is_err());
    let purges = space.stats().purges;
    let contended = Err(AreaError::Area(FreeError::Contended { addr: addr + 2 * PAGE }));
    assert_eq!(area.try_commit(2 * PAGE..4 * PAGE), contended);
    space.platform().fail_nth(Point::Map, 1);
    let refused = area.try_commit(20 * PAGE..30 * PAGE);
    assert!(matches!(refused, Err(AreaError::Platform(_))), "{refused:?}");
    assert_eq!((space.stats().purges, area.committed_bytes()), (purges, 6 * PAGE));
    space.platform().relent();
    area.commit(2 * PAGE..4 * PAGE).expect("it unmaps what is left");
    area.try_commit(20 * PAGE..30 * PAGE).expect("nothing is committed");
    assert_eq!(area.committed_bytes(), 18 * PAGE);
}
