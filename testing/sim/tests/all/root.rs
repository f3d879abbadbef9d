//! Sub-spaces: each in its own range, and nothing left behind when it goes.

use crate::{PAGE, free};
use vmalloc::{
    AllocError, Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformFault, Policy, Protection,
    Relocate, Request, RequestError, Space, SpaceError, SpaceOptions,
};
use vmalloc_sim::{Access, Direct, Fault, OnViolation, Options, Point, Sim};
use vmalloc_subspaces::{Divisible, LIMIT_BYTES, Root, Subspace, SubspaceError, SubspaceState};

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("not empty")
}

/// Returns the addresses of pages.
fn addrs(start: u64, end: u64) -> PageRange {
    range(pages(start as usize) as u64, pages(end as usize) as u64)
}

/// Returns a root over the pages 0x1000 to 0x2000.
fn root() -> Root<Sim> {
    Root::new(Options::new(range(0x1000, 0x2000)).build()).expect("an empty root")
}

fn pages(count: usize) -> usize {
    count * PAGE
}

/// Asks for the pages `start` to `end` alone.
fn at(start: usize, end: usize) -> Request {
    Request::new(pages(end - start)).within(pages(start), pages(end))
}

fn plain() -> SpaceOptions {
    SpaceOptions::default()
}

/// Without guards and caching: what is asked for is what is mapped.
fn bare() -> SpaceOptions {
    plain().unmap_on_free().guard(false)
}

fn names(root: &Root<Sim>) -> Vec<&'static str> {
    root.subspaces().map(|part| part.name).collect()
}

/// Nothing is granted, mapped, or remembered by a TLB.
fn finish(root: &Root<Sim>) {
    assert_eq!(root.subspaces().next(), None);
    root.platform().check_end();
    let span = root.platform().geometry().span;
    let all = root.subspace("all", &at(span.start() as usize, span.end() as usize), None, plain());
    assert!(all.is_ok(), "the span is not whole again");
}

#[test]
fn children_have_ranges_of_their_own_and_give_them_back() {
    let root = root();
    let low = root.subspace("low", &Request::new(pages(0x100) - 5), None, plain()).expect("room");
    let high = root
        .subspace(
            "high",
            &Request::new(pages(0x80)).policy(Policy::Highest).align(pages(0x100)),
            None,
            plain(),
        )
        .expect("room");
    let exact = root.subspace("exact", &at(0x1800, 0x1900), None, plain()).expect("room");
    assert_eq!(low.geometry().span, range(0x1000, 0x1100));
    assert_eq!(high.geometry().span, range(0x1f00, 0x1f80));
    assert_eq!(names(&root), ["low", "exact", "high"]);

    let addr = exact.raw().alloc(&Request::new(pages(3))).expect("room");
    assert_eq!(addr, pages(0x1800));
    root.platform().write(0, 0x1802, 9).expect("it is mapped");
    let info: Vec<_> = root.subspaces().collect();
    assert_eq!((info[1].name, info[1].used_bytes, info[1].state), ("exact", pages(3), SubspaceState::Live));
    assert_eq!((info[0].used_bytes, info[0].limit_bytes), (0, None));
    free(&exact, addr);
    exact.purge().expect("no fault");
    assert!(root.subspaces().all(|part| part.used_bytes == 0));
    drop((low, high, exact));
    finish(&root);
}

#[test]
fn limits_alignment_and_policy_of_a_request_place_a_sub_space() {
    let root = root();
    let within = Request::new(pages(0x10)).within(pages(0x1200), pages(0x1300));
    let place = |name, request: Request| root.subspace(name, &request, None, plain());
    let low = place("low", within).expect("room");
    let high = place("high", within.policy(Policy::Highest).align(pages(0x80))).expect("room");
    assert_eq!(low.geometry().span, range(0x1200, 0x1210));
    assert_eq!(high.geometry().span, range(0x1280, 0x1290));
    // One place alone, and it is not aligned.
    let SubspaceError::NoSpace(facts) = place("odd", at(0x1411, 0x1421).align(pages(0x10))).unwrap_err()
    else {
        panic!()
    };
    let wanted = (pages(0x10) as u64, pages(0x10) as u64, addrs(0x1411, 0x1421));
    assert_eq!((facts.size, facts.align, facts.within), wanted);
    drop((low, high));
    finish(&root);
}

#[test]
fn conflicts_are_typed_and_change_nothing() {
    let root = root();
    let sibling = root.subspace("sibling", &at(0x1400, 0x1500), None, plain()).expect("room");
    let before: Vec<_> = root.subspaces().collect();
    let refused = |name, request: Request| {
        let error = root.subspace(name, &request, None, plain()).expect_err("a conflict");
        assert_eq!(root.subspaces().collect::<Vec<_>>(), before, "{error}");
        error
    };
    let taken = addrs(0x1400, 0x1500);
    let name = refused("sibling", Request::new(PAGE));
    assert_eq!(name, SubspaceError::DuplicateName { name: "sibling", range: taken });
    let asked = addrs(0x14ff, 0x1600);
    let overlap = refused("other", at(0x14ff, 0x1600));
    assert_eq!(overlap, SubspaceError::Overlap { asked, sibling: "sibling", range: taken });
    let asked = addrs(0x1f00, 0x2001);
    let outside = refused("other", at(0x1f00, 0x2001));
    assert_eq!(outside, SubspaceError::Outside { asked, parent: addrs(0x1000, 0x2000) });
    let start = pages(0x1001);
    let no_page = refused("other", Request::new(PAGE).within(start - 1, start + 1));
    assert_eq!(
        no_page,
        RequestError::LimitsReversed { start: start as u64 - 1, end: start as u64 + 1 }.into()
    );
    let part_of_a_page =
        refused("other", Request::new(PAGE + 2).within(pages(0x1001) - 1, pages(0x1002) + 1));
    let SubspaceError::NoSpace(facts) = part_of_a_page else { panic!() };
    assert_eq!((facts.size, facts.within), (2 * PAGE as u64, addrs(0x1001, 0x1002)));
    assert_eq!(refused("other", Request::new(0)), RequestError::ZeroSize.into());
    let align = RequestError::AlignNotPowerOfTwo { align: 3 };
    assert_eq!(refused("other", Request::new(PAGE).policy(Policy::Highest).align(3)), align.into());
    let SubspaceError::NoSpace(facts) = refused("other", Request::new(pages(0xc00))) else { panic!() };
    assert_eq!((facts.size, facts.largest), (pages(0xc00) as u64, pages(0xb00) as u64));
    assert!(facts.to_string().starts_with("no 12582912 bytes free, "), "{facts}");

    let bad = plain().nodes(1000);
    let error = root.subspace("other", &Request::new(PAGE), None, bad).err();
    assert_eq!(error, Some(SpaceError::TooManyNodes { nodes: 1000 }.into()));
    assert_eq!(root.subspaces().collect::<Vec<_>>(), before);
    drop(sibling);
    finish(&root);
}

#[test]
fn limit_counts_mapped_and_cached_pages() {
    let root = root();
    let part = root.subspace("small", &Request::new(pages(0x400)), Some(pages(10)), plain()).expect("room");
    let used = || root.subspaces().map(|part| part.used_bytes).sum::<usize>();
    let six = part.raw().alloc(&Request::new(pages(6))).expect("within the limit");
    let error = part.raw().alloc(&Request::new(pages(5))).expect_err("beyond it");
    let AllocError::Unbacked(facts) = error else { panic!("{error}") };
    assert_eq!(facts.cause.call, LIMIT_BYTES);
    assert_eq!(used(), pages(6));
    let four = part.raw().alloc(&Request::new(pages(4))).expect("within the limit");
    free(&part, six);
    assert_eq!(used(), pages(10), "it is kept");
    // Cached areas make way.
    let five = part.raw().alloc(&Request::new(pages(5))).expect("what is kept is given up");
    assert_eq!(used(), pages(9));
    part.raw().reserve(&Request::new(pages(100))).expect("addresses are no memory");
    assert_eq!(used(), pages(9));
    free(&part, four);
    free(&part, five);
    part.purge().expect("no fault");
    assert_eq!(used(), 0);
    drop(part);
    finish(&root);
}

/// Returns a root over as many pages whose machine replaces what is mapped, and records misuse.
fn replacing() -> Root<Sim> {
    let options = Options::new(range(0x1000, 0x2000)).remaps_atomically();
    Root::new(options.on_violation(OnViolation::Record).build()).expect("an empty root")
}

/// Returns the pages that all children have mapped.
fn used<P: Divisible>(root: &Root<P>) -> usize {
    root.subspaces().map(|part| part.used_bytes / PAGE).sum()
}

const RW: Protection = Protection::ReadWrite;

#[test]
fn pages_are_counted_from_map_to_flush() {
    let root = replacing();
    let child = root.divide("child", &at(0x1200, 0x1800), Some(pages(20))).expect("room");
    // SAFETY: nothing uses the pages.
    unsafe {
        child.map(range(0x1200, 0x1210), RW, ()).expect("within the limit");
        assert_eq!(used(&root), 16);
        let refused = child.map(range(0x1220, 0x1225), RW, ()).expect_err("beyond it");
        assert_eq!((refused.call, refused.fault), (LIMIT_BYTES, PlatformFault::OutOfMemory));
        child.unmap(&[range(0x1204, 0x1208)]).expect("no fault");
        assert_eq!(used(&root), 16, "unmapped is not flushed");
        child.flush(&[range(0x1204, 0x1208)]).expect("no fault");
        child.flush(&[range(0x1204, 0x1208), range(0x1210, 0x1240)]).expect("no fault");
        assert_eq!(used(&root), 12, "a part, and never twice");
        child.map(range(0x1220, 0x1225), RW, ()).expect("within the limit");
        assert_eq!(used(&root), 17);
    }
    let before = root.platform().counts();
    drop(child);
    let after = root.platform().counts();
    assert_eq!((after.unmaps - before.unmaps, after.flushes - before.flushes), (1, 1));
    assert_eq!((root.platform().mapped_pages(), root.subspaces().next()), (0, None));
}

#[test]
fn what_fails_below_is_not_counted() {
    let root = replacing();
    let child = root.divide("child", &Request::new(pages(64)), Some(pages(20))).expect("room");
    let (sim, some, all) = (root.platform(), range(0x1000, 0x1004), range(0x1000, 0x1014));
    let mut frames = [Frame(0); 24];
    sim.take_frames(&mut frames).expect("there are many");
    [Point::Map, Point::MapHuge].iter().for_each(|point| sim.fail_nth(*point, 1));
    // SAFETY: nothing uses the pages, and the frames are the test's.
    unsafe {
        assert!(child.map(all, RW, ()).is_err() && child.map_huge(all, RW, ()).is_err());
        assert_eq!(used(&root), 0);
        child.map_frames(some, &frames[..4], Protection::Read).expect("no fault");
        [Point::MapFrames, Point::Flush].iter().for_each(|point| sim.fail_nth(*point, 1));
        assert!(child.map_frames(some, &frames[4..8], RW).is_err() && child.flush(&[some]).is_err());
        assert_eq!(used(&root), 4, "the old frames are still there");
        child.map_frames(all, &frames[4..], RW).expect("no fault");
        assert_eq!(used(&root), 20, "only what is new counts");
        child.flush(&[all]).expect("no fault");
        assert_eq!(used(&root), 0);
    }
}

#[test]
fn memory_that_moves_needs_no_room_below_the_limit() {
    let root = Root::new(Direct::new(64, |options| options.cpus(1).relocates())).expect("an empty root");
    let child = root.divide("child", &Request::new(pages(64)), Some(pages(10))).expect("room");
    let first = child.geometry().span.start();
    let (from, to) = (range(first, first + 10), range(first + 16, first + 26));
    // SAFETY: nothing uses the pages.
    unsafe {
        child.map(from, RW, ()).expect("within the limit");
        child.relocate(from, to).expect("no fault");
        assert_eq!(used(&root), 20, "the old place has to be flushed");
        child.unmap(&[from]).and_then(|()| child.flush(&[from])).expect("no fault");
        assert_eq!(used(&root), 10);
    }
}

#[test]
fn a_child_is_as_the_machine_below() {
    let root = replacing();
    let child = root.divide("child", &Request::new(pages(64)), None).expect("room");
    let (of_child, below) = (child.geometry(), root.platform().geometry());
    assert_eq!(of_child.span(below.span), below);
}

#[test]
fn a_child_is_divided_again() {
    let root = root();
    let lent = root
        .divide("outer", &Request::new(pages(0x200)).policy(Policy::Highest), Some(pages(12)))
        .expect("room");
    let outer = Root::new(lent).expect("an empty root");
    let left = outer.subspace("left", &Request::new(pages(0x40)), None, bare()).expect("room");
    let right = outer
        .subspace("right", &Request::new(pages(0x40)).policy(Policy::Highest), Some(pages(4)), bare())
        .expect("room");
    assert_eq!(left.geometry().span, range(0x1e00, 0x1e40));
    let beyond = outer.subspace("beyond", &at(0x1000, 0x1001), None, bare()).err();
    assert!(matches!(beyond, Some(SubspaceError::Outside { .. })), "{beyond:?}");

    left.raw().alloc(&Request::new(pages(8))).expect("within the outer limit");
    let refused = right.raw().alloc(&Request::new(pages(5))).expect_err("beyond the inner limit");
    assert!(matches!(refused, AllocError::Unbacked(facts) if facts.cause.call == LIMIT_BYTES));
    right.raw().alloc(&Request::new(pages(4))).expect("within both");
    assert!(left.raw().alloc(&Request::new(pages(1))).is_err(), "beyond the outer limit");
    assert_eq!(root.subspaces().map(|part| part.used_bytes).collect::<Vec<_>>(), [pages(12)]);
    // The roots may go before what was made from them.
    drop(outer);
    assert_eq!(names(&root), ["outer"]);
    drop(right);
    drop(left);
    finish(&root);
}

#[test]
fn each_child_has_its_direction() {
    let root = root();
    let downwards = bare().policy(Policy::Highest);
    let up = root.subspace("up", &Request::new(pages(0x100)), None, bare()).expect("room");
    let down = root.subspace("down", &Request::new(pages(0x100)), None, downwards).expect("room");
    let places = |space: &Space<Subspace<Sim>>| {
        [5, 3].map(|count| space.raw().alloc(&Request::new(pages(count))).expect("room") / PAGE)
    };
    // Upwards some areas of a size are taken at once.
    assert_eq!(places(&up)[0], 0x1000);
    assert_eq!(places(&down), [0x11fb, 0x11f8]);
    drop((up, down));
    finish(&root);
}

#[test]
fn a_protected_child_maps_with_its_own_protection_and_caches_nothing() {
    let root = root();
    let part = root.protected_subspace(
        "rodata",
        &Request::new(pages(0x100)),
        Some(pages(64)),
        Protection::Read,
        plain(),
    );
    let part = part.expect("room");
    assert_eq!(part.options().cache_bytes, Some(0));
    let addr = part.raw().alloc(&Request::new(pages(5))).expect("room");
    let (cpu, page, access, protection) = (0, (addr / PAGE) as u64, Access::Write, Protection::Read);
    let denied = Fault::Denied { cpu, page, access, protection };
    assert_eq!(root.platform().write(cpu, page, 1), Err(denied));
    free(&part, addr);
    drop(part);
    finish(&root);
    // Where new pages would have to be cleared there is none.
    let root = Root::new(Options::new(range(0x1000, 0x2000)).dirty().build()).expect("an empty root");
    let part =
        root.protected_subspace("rodata", &Request::new(pages(0x100)), None, Protection::Read, plain());
    assert!(matches!(part.err(), Some(SubspaceError::NotZeroed)));
    finish(&root);
}
