//! Safe code with owned types: frames stay taken while anything shows them, and no page is touched
//! that is not there.

use crate::{PAGE, free};
use crate::{set_block_slots, short};
use vmalloc::{
    AreaError, CodeBuffer, Frame, FrameSupply, FreeError, Mapping, PageRange, PagedArea, Protection, Request,
    RequestError, Space, SpaceOptions,
};
use vmalloc_short::ShortMapping;
use vmalloc_sim::{Direct, Discard, Options, Point, Sim, TlbVisibility};
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

/// Has the machine refuse pages that were given up: as many frames stay taken until it relents.
fn stay_taken_while_refused(space: &Space<Sim>, pages: PageRange, count: usize) {
    space.platform().refuse(Point::Unmap, pages);
    assert!(space.flush().is_err());
    assert_eq!(space.platform().taken_frames().len(), count);
    space.platform().relent();
    space.flush().expect("the machine has relented");
    assert!(space.platform().taken_frames().is_empty());
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

#[test]
fn a_paged_area_refuses_pages_of_another_owner() {
    let space = space(SpaceOptions::default());
    let frames = space.frames(2).expect("there are many");
    let areas = [0; 3].map(|_| PagedArea::new(&space, &pages(4)).expect("room"));
    let addrs = areas.each_ref().map(PagedArea::addr);
    for mut area in areas {
        let addr = area.addr();
        for other in addrs.into_iter().filter(|other| *other > addr) {
            let refused = area.map(other - addr, &frames, Protection::ReadWrite);
            assert!(matches!(refused, Err(AreaError::Beyond { .. })), "{refused:?}");
        }
        // Its last page, and the guard or the next area behind it.
        let refused = area.map(3 * PAGE, &frames, Protection::ReadWrite);
        assert!(matches!(refused, Err(AreaError::Beyond { .. })), "{refused:?}");
        // Where there is no area now, there may be one in a moment.
        for offset in [4, 1 << 10, 1 << 11, 1 << 30] {
            let refused = area.map(offset * PAGE, &frames, Protection::ReadWrite);
            assert!(matches!(refused, Err(AreaError::Beyond { .. })), "{offset:#x}: {refused:?}");
        }
        for offset in [1, usize::MAX - addr, usize::MAX, 0_usize.wrapping_sub(PAGE)] {
            assert!(area.map(offset, &frames, Protection::ReadWrite).is_err(), "{offset:#x}");
        }
        assert!(area.map(2 * PAGE, &frames, Protection::ReadWrite).is_ok());
    }
    drop(frames);
    space.purge().expect("no fault was asked for");
    assert!(space.platform().taken_frames().is_empty());
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

/// A refused block may show the frames of any short mapping that was returned.
#[test]
fn frames_of_a_short_mapping_wait_for_a_block_that_is_refused() {
    let space = space(SpaceOptions::default().unmap_on_free());
    set_block_slots(&space, 64);
    let frames = space.frames(2).expect("there are many");
    let short = short(&space);
    let mapping = ShortMapping::new(&short, &frames).expect("room");
    let slots = PageRange::from_len((mapping.addr() / PAGE) as u64, 2).expect("two");
    drop((mapping, frames));
    stay_taken_while_refused(&space, slots, 2);
}

/// A short mapping of more pages than a block serves has an area of its own.
#[test]
fn frames_of_a_long_short_mapping_wait_for_an_area_that_is_refused() {
    let space = space(SpaceOptions::default().unmap_on_free());
    let mut frames = space.frames(65).expect("there are many");
    frames.swap(0, 64);
    let short = short(&space);
    let mapping = ShortMapping::new(&short, &frames).expect("room");
    let mapped = PageRange::from_len((mapping.addr() / PAGE) as u64, 65).expect("not empty");
    drop((mapping, frames));
    stay_taken_while_refused(&space, mapped, 65);
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

/// A refused area shows the frames that were mapped in it.
#[test]
fn frames_of_a_paged_area_wait_for_an_area_that_is_refused() {
    let space = space(SpaceOptions::default().unmap_on_free());
    let frames = space.frames(2).expect("there are many");
    let mut area = PagedArea::new(&space, &pages(8)).expect("room");
    let addr = area.map(3 * PAGE, &frames, Protection::ReadWrite).expect("nothing is there");
    drop((area, frames));
    let mapped = PageRange::from_len((addr / PAGE) as u64, 2).expect("two");
    stay_taken_while_refused(&space, mapped, 2);
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

/// Memory and frames lie side by side in one area, and none is taken for the other.
#[test]
fn a_paged_area_has_memory_and_frames() {
    let space = space(SpaceOptions::default().unmap_on_free());
    let frames = space.frames(2).expect("there are many");
    let mut area = PagedArea::new(&space, &pages(16)).expect("room");
    let base = area.addr();
    area.commit(0..4 * PAGE).expect("nothing is there");
    area.map(6 * PAGE, &frames, Protection::ReadWrite).expect("nothing is there");
    area.map(4 * PAGE, &frames, Protection::ReadWrite).expect("nothing is there");
    assert_eq!((area.committed_bytes(), area.len()), (4 * PAGE, 16 * PAGE));
    let over_memory = area.map(3 * PAGE, &frames, Protection::Read);
    assert_eq!(over_memory, Err(AreaError::Mapped { addr: base + 3 * PAGE }));
    assert_eq!(area.commit(7 * PAGE..9 * PAGE), Err(AreaError::Mapped { addr: base + 7 * PAGE }));
    for range in [3 * PAGE..5 * PAGE, 4 * PAGE..5 * PAGE, 5 * PAGE..8 * PAGE] {
        let addr = base + range.start.max(4 * PAGE);
        let refused = Err(AreaError::NotMapped { addr });
        assert_eq!((area.decommit(range.clone()), area.reset(range)), (refused, refused));
    }
    let over_the_end = area.len() - PAGE..area.len() + PAGE;
    let refused = [area.commit(over_the_end.clone()), area.decommit(over_the_end)];
    assert!(refused.iter().all(|refused| matches!(refused, Err(AreaError::Beyond { .. }))), "{refused:?}");
    assert_eq!(area.commit(7..PAGE), Err(FreeError::Unaligned { addr: base + 7 }.into()));
    assert_eq!(area.commit(PAGE..PAGE), Err(RequestError::ZeroSize.into()));
    assert_eq!(area.discard(3 * PAGE..5 * PAGE), Err(AreaError::NotMapped { addr: base + 4 * PAGE }));
    area.decommit(2 * PAGE..4 * PAGE).expect("it is committed");
    // SAFETY: nothing uses the pages.
    unsafe { area.unmap(4 * PAGE) }.expect("frames are there");
    // SAFETY: nothing uses the pages.
    assert_eq!(unsafe { area.unmap(5 * PAGE) }, Err(AreaError::NotMapped { addr: base + 5 * PAGE }));
    // SAFETY: nothing uses the pages.
    assert_eq!(unsafe { area.unmap(7 * PAGE) }, Err(AreaError::NotMapped { addr: base + 7 * PAGE }));
    area.commit(2 * PAGE..6 * PAGE).expect("nothing is there any more");
    assert_eq!(area.committed_bytes(), 6 * PAGE);
    drop((area, frames));
    space.purge().expect("no fault was asked for");
    assert!(space.platform().taken_frames().is_empty());
}

/// Pages that the machine refused to unmap may be gone at any time after that.
#[test]
fn pages_whose_decommit_was_refused_are_committed_no_more() {
    let space = space(SpaceOptions::default());
    let mut area = PagedArea::new(&space, &pages(64)).expect("room");
    area.commit(0..8 * PAGE).expect("nothing is committed");
    let page = (area.addr() / PAGE) as u64;
    space.platform().refuse(Point::Unmap, PageRange::from_len(page + 3, 1).expect("one"));
    let refused = area.decommit(2 * PAGE..4 * PAGE);
    assert!(matches!(refused, Err(AreaError::Platform(_))), "{refused:?}");
    assert_eq!(area.committed_bytes(), 6 * PAGE);
    space.platform().relent();
    space.purge().expect("the machine has relented");
    let gone = area.reset(2 * PAGE..4 * PAGE);
    assert_eq!(gone, Err(AreaError::NotMapped { addr: area.addr() + 2 * PAGE }));
    area.commit(2 * PAGE..4 * PAGE).expect("nothing is committed");
    area.reset(0..8 * PAGE).expect("all are committed");
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

/// A buffer of zeros grows to a part of a page, on a machine whose new pages are of any content.
/// The rest of the page reads as zero when it becomes the buffer's as well.
#[test]
fn a_buffer_of_zeros_that_grows_in_place_stays_one() {
    Sim::run_on(0);
    let platform = Direct::new(1 << 10, |options| options.cpus(1).dirty());
    let space = Space::new(platform, SpaceOptions::default().unmap_on_free()).expect("an empty space");
    let mut used = space.buffer(64 * PAGE).expect("room");
    used.fill(0xaa);
    drop(used);
    space.purge().expect("nothing is refused");
    let mut buffer = space.zeroed_buffer(PAGE).expect("room");
    for bytes in [PAGE + 1, 2 * PAGE + 5] {
        buffer.grow_in_place(bytes).expect("room");
        buffer.resize(bytes.next_multiple_of(PAGE)).expect("room");
        assert_eq!(buffer.iter().position(|&byte| byte != 0), None, "{bytes}");
    }
}

/// A seal that the machine refuses gives the memory back, which can be sealed later.
#[test]
fn a_refused_seal_has_the_memory() {
    Sim::run_on(0);
    let platform = Direct::new(1 << 10, |options| options.cpus(1));
    let space = Space::new(platform, SpaceOptions::default()).expect("an empty space");
    let mut buffer = CodeBuffer::new(&space, &pages(1)).expect("room");
    buffer[0] = 0xc3;
    space.platform().sim().fail_nth(Point::Protect, 1);
    let refused = buffer.seal().expect_err("the machine refuses");
    let error: &dyn std::error::Error = &refused;
    assert!(error.to_string().starts_with("code can't be sealed or unsealed: "), "{error}");
    assert!(error.source().is_some_and(|cause| cause.is::<AreaError>()));
    // SAFETY: nothing executes it.
    let buffer = unsafe { refused.memory.unseal() }.expect("once");
    let code = buffer.seal().expect("once");
    assert_eq!(code[0], 0xc3);
    drop(code);
    assert_eq!(space.stats().busy_areas, 0);
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

#[test]
fn the_pages_behind_an_area_are_told_in_order() {
    let space = space(SpaceOptions::default());
    let mut area = PagedArea::new(&space, &pages(4)).expect("room");
    area.commit(PAGE..3 * PAGE).expect("nothing is committed");
    let told: Vec<_> = area.physical_pages().collect();
    let each: Vec<_> = (0..4).map(|nth| space.physical_page(area.addr() + nth * PAGE)).collect();
    assert_eq!(told, each);
    assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true, false]);
}
