//! Sub-spaces: each in its own range, and nothing left behind when it goes.

mod common;

use common::SimWitness;
use vmalloc::root::{Child, ChildConfig, ChildError, LIMIT_BYTES, Root, Site, Tenure};
use vmalloc::{
    AllocError, AreaInfo, Config, PageRange, Platform, Policy, Protection, Request, RequestError, Space,
    SpaceError,
};
use vmalloc_model::space::{Call, Content, SpaceGenerator, SpaceSession, Witness};
use vmalloc_model::{Seeded, env};
use vmalloc_sim::{Options, Point, Sight, Sim};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("not empty")
}

/// A root over the pages 0x1000 to 0x2000.
fn root() -> Root<Sim> {
    Root::new(Options::new(range(0x1000, 0x2000)).build()).expect("an empty root")
}

fn pages(count: usize) -> usize {
    count * PAGE
}

fn plain() -> ChildConfig {
    ChildConfig::default()
}

/// Without guards and caching: what is asked for is what is mapped.
fn bare() -> ChildConfig {
    plain().config(Config::default().unmap_on_free().guard(false))
}

fn free<P: Platform>(space: &Space<P>, addr: usize) {
    // SAFETY: no test uses what it frees.
    unsafe { space.vfree(addr) }.expect("it was allocated");
}

fn names(root: &Root<Sim>) -> Vec<&'static str> {
    root.children().map(|child| child.name).collect()
}

/// Nothing is granted, mapped, or remembered by a TLB.
fn finish(root: &Root<Sim>) {
    assert_eq!(root.children().next(), None);
    root.platform().check_end();
    let span = root.geometry().span;
    let all = Site::at(pages(span.start() as usize), pages(span.end() as usize));
    let all = root.child("all", all, plain());
    assert!(all.is_ok(), "the span is not whole again");
}

#[test]
fn children_have_ranges_of_their_own_and_give_them_back() {
    let root = root();
    let low = root.child("low", Site::lowest(pages(0x100) - 5), plain()).expect("room");
    let high = root.child("high", Site::highest(pages(0x80)).align(pages(0x100)), plain()).expect("room");
    let exact = root.child("exact", Site::at(pages(0x1800), pages(0x1900)), plain()).expect("room");
    assert_eq!(low.geometry().span, range(0x1000, 0x1100));
    assert_eq!(high.geometry().span, range(0x1f00, 0x1f80));
    assert_eq!(names(&root), ["low", "exact", "high"]);

    let addr = exact.alloc(&Request::new(pages(3))).expect("room");
    assert_eq!(addr, pages(0x1800));
    root.platform().write(0, 0x1802, 9).expect("it is mapped");
    let info: Vec<_> = root.children().collect();
    assert_eq!((info[1].name, info[1].used_bytes, info[1].tenure), ("exact", pages(3), Tenure::Live));
    assert_eq!((info[0].used_bytes, info[0].limit_bytes), (0, None));
    free(&exact, addr);
    exact.purge().expect("no fault");
    assert!(root.children().all(|child| child.used_bytes == 0));
    drop((low, high, exact));
    finish(&root);
}

#[test]
fn conflicts_are_typed_and_change_nothing() {
    let root = root();
    let sibling = root.child("sibling", Site::at(pages(0x1400), pages(0x1500)), plain()).expect("room");
    let before: Vec<_> = root.children().collect();
    let refused = |name, site| {
        let error = root.child(name, site, plain()).err().expect("a conflict");
        assert_eq!(root.children().collect::<Vec<_>>(), before, "{error}");
        error
    };
    let taken = range(0x1400, 0x1500);
    let name = refused("sibling", Site::lowest(PAGE));
    assert_eq!(name, ChildError::DuplicateName { name: "sibling", range: taken });
    let asked = range(0x14ff, 0x1600);
    let overlap = refused("other", Site::at(pages(0x14ff), pages(0x1600)));
    assert_eq!(overlap, ChildError::Overlap { asked, sibling: "sibling", range: taken });
    let asked = range(0x1f00, 0x2001);
    let outside = refused("other", Site::at(pages(0x1f00), pages(0x2001)));
    assert_eq!(outside, ChildError::Outside { asked, parent: range(0x1000, 0x2000) });
    for (start, end) in [(pages(0x1001) + 1, pages(0x1002)), (pages(0x1002), pages(0x1002)), (PAGE, 0)] {
        assert_eq!(refused("other", Site::at(start, end)), ChildError::NotPages { start, end });
    }
    assert_eq!(refused("other", Site::lowest(0)), RequestError::ZeroSize.into());
    let align = RequestError::AlignNotPowerOfTwo { align: 3 };
    assert_eq!(refused("other", Site::highest(PAGE).align(3)), align.into());
    let ChildError::NoSpace(facts) = refused("other", Site::lowest(pages(0xc00))) else { panic!() };
    assert_eq!((facts.pages, facts.largest), (0xc00, 0xb00));

    let bad = plain().config(Config::default().nodes(1000));
    let error = root.child("other", Site::lowest(PAGE), bad).err();
    assert_eq!(error, Some(SpaceError::TooManyNodes { nodes: 1000 }.into()));
    assert_eq!(root.children().collect::<Vec<_>>(), before);
    drop(sibling);
    finish(&root);
}

#[test]
fn a_limit_counts_what_is_mapped_and_what_is_kept() {
    let root = root();
    let child = root.child("small", Site::lowest(pages(0x400)), plain().limit(pages(10))).expect("room");
    let used = || root.children().map(|child| child.used_bytes).sum::<usize>();
    let six = child.alloc(&Request::new(pages(6))).expect("within the limit");
    let error = child.alloc(&Request::new(pages(5))).expect_err("beyond it");
    let AllocError::Unbacked(facts) = error else { panic!("{error}") };
    assert_eq!(facts.cause.call, LIMIT_BYTES);
    assert_eq!(used(), pages(6));
    let four = child.alloc(&Request::new(pages(4))).expect("within the limit");
    free(&child, six);
    assert_eq!(used(), pages(10), "it is kept");
    // What is kept makes way.
    let five = child.alloc(&Request::new(pages(5))).expect("what is kept is given up");
    assert_eq!(used(), pages(9));
    child.reserve(&Request::new(pages(100))).expect("addresses are no memory");
    assert_eq!(used(), pages(9));
    free(&child, four);
    free(&child, five);
    child.purge().expect("no fault");
    assert_eq!(used(), 0);
    drop(child);
    finish(&root);
}

#[test]
fn maps_that_fail_are_not_counted() {
    let root = root();
    let child = root.child("one", Site::lowest(pages(0x100)), bare().limit(pages(4))).expect("room");
    for _ in 0..3 {
        root.platform().fail_nth(Point::Map, 1);
        let addr = child.alloc(&Request::new(pages(4))).expect("the second try succeeds");
        free(&child, addr);
        child.purge().expect("no fault");
    }
    drop(child);
    finish(&root);
}

#[test]
fn memory_ends_with_its_space() {
    let root = root();
    let child = root.child("one", Site::at(pages(0x1200), pages(0x1300)), plain()).expect("room");
    let kept = child.alloc(&Request::new(pages(2))).expect("room");
    let freed = child.alloc(&Request::new(pages(2))).expect("room");
    let cached = child.alloc(&Request::new(pages(9))).expect("room");
    free(&child, freed);
    free(&child, cached);
    let page = (kept / PAGE) as u64;
    for cpu in 0..4 {
        root.platform().write(cpu, page, 1).expect("it is mapped");
    }
    drop(child);
    assert!((0..4).all(|cpu| root.platform().look(cpu, page) == Sight::Nothing));
    // The simulator panics if the same addresses come back with a stale translation.
    let again = root.child("one", Site::at(pages(0x1200), pages(0x1300)), plain()).expect("room");
    let addr = again.alloc(&Request::new(pages(0xff))).expect("all of it");
    assert_eq!(root.platform().read(3, page), Ok(0));
    free(&again, addr);
    drop(again);
    finish(&root);
}

#[test]
fn what_the_platform_does_not_take_back_lingers() {
    for point in [Point::Unmap, Point::Flush] {
        let root = root();
        let child = root.child("one", Site::at(pages(0x1200), pages(0x1300)), plain()).expect("room");
        child.alloc(&Request::new(pages(8))).expect("room");
        root.platform().prefetch(2, range(0x1200, 0x1208));
        root.platform().fail_nth(point, 1);
        drop(child);
        let left = root.children().next().expect("it lingers");
        assert_eq!((left.name, left.tenure, left.used_bytes), ("one", Tenure::Lingering, pages(8)));
        // Once more in vain.
        root.platform().fail_nth(point, 1);
        let overlap = root.child("two", Site::at(pages(0x12ff), pages(0x1400)), plain());
        assert!(matches!(overlap.err(), Some(ChildError::Overlap { sibling: "one", .. })));
        let again = root.child("one", Site::at(pages(0x1200), pages(0x1300)), plain()).expect("swept");
        let addr = again.alloc(&Request::new(pages(8))).expect("room");
        assert_eq!(root.platform().read(2, (addr / PAGE) as u64), Ok(0));
        drop(again);
        finish(&root);
    }
}

#[test]
fn a_child_is_divided_again() {
    let root = root();
    let lent = root.lend("outer", Site::highest(pages(0x200)), Some(pages(12))).expect("room");
    let outer = Root::new(lent).expect("an empty root");
    let left = outer.child("left", Site::lowest(pages(0x40)), bare()).expect("room");
    let right = outer.child("right", Site::highest(pages(0x40)), bare().limit(pages(4))).expect("room");
    assert_eq!(left.geometry().span, range(0x1e00, 0x1e40));
    let beyond = outer.child("beyond", Site::at(pages(0x1000), pages(0x1001)), bare()).err();
    assert!(matches!(beyond, Some(ChildError::Outside { .. })), "{beyond:?}");

    left.alloc(&Request::new(pages(8))).expect("within the outer limit");
    let refused = right.alloc(&Request::new(pages(5))).expect_err("beyond the inner limit");
    assert!(matches!(refused, AllocError::Unbacked(facts) if facts.cause.call == LIMIT_BYTES));
    right.alloc(&Request::new(pages(4))).expect("within both");
    assert!(left.alloc(&Request::new(pages(1))).is_err(), "beyond the outer limit");
    assert_eq!(root.children().map(|child| child.used_bytes).collect::<Vec<_>>(), [pages(12)]);
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
    let downwards = bare().config(Config::default().unmap_on_free().guard(false).policy(Policy::Highest));
    let up = root.child("up", Site::lowest(pages(0x100)), bare()).expect("room");
    let down = root.child("down", Site::lowest(pages(0x100)), downwards).expect("room");
    let places = |space: &Space<Child<Sim>>| {
        [5, 3].map(|count| space.alloc(&Request::new(pages(count))).expect("room") / PAGE)
    };
    // Upwards some areas of a size are taken at once.
    assert_eq!(places(&up)[0], 0x1000);
    assert_eq!(places(&down), [0x11fb, 0x11f8]);
    drop((up, down));
    finish(&root);
}

#[test]
fn a_protected_child_keeps_nothing() {
    let root = root();
    let read_only = plain().limit(pages(64));
    let child = root.protected_child("rodata", Site::lowest(pages(0x100)), Protection::Read, read_only);
    let child = child.expect("room");
    assert_eq!(child.config().cache_bytes, 0);
    let addr = child.alloc(&Request::new(pages(5))).expect("room");
    free(&child, addr);
    drop(child);
    finish(&root);
}

#[test]
fn the_platform_lives_until_the_last_child_is_gone() {
    let root = root();
    let child = root.child("last", Site::lowest(pages(0x100)), plain()).expect("room");
    drop(root);
    let addr = child.alloc(&Request::new(pages(5))).expect("room");
    child.platform().parent().write(0, (addr / PAGE) as u64, 1).expect("it is mapped");
    free(&child, addr);
    child.purge().expect("no fault");
    child.platform().parent().check_end();
}

/// Looks at the machine below a child.
struct Below(SimWitness);

impl Witness<Child<Sim>> for Below {
    fn appeared(&mut self, child: &Child<Sim>, area: &AreaInfo, content: Content) {
        self.0.appeared(child.parent(), area, content);
    }
    fn leaves(&mut self, child: &Child<Sim>, area: &AreaInfo) {
        self.0.leaves(child.parent(), area);
    }
    fn ends(&mut self, child: &Child<Sim>) {
        self.0.ends(child.parent());
    }
    fn move_to(&mut self, child: &Child<Sim>, cpu: usize) {
        self.0.move_to(child.parent(), cpu);
    }
    fn fail(&mut self, child: &Child<Sim>, call: Call, nth: u64) {
        self.0.fail(child.parent(), call, nth);
    }
    fn heal(&mut self, child: &Child<Sim>) {
        self.0.heal(child.parent());
    }
    fn failed(&self, child: &Child<Sim>) -> u64 {
        self.0.failed(child.parent())
    }
}

#[test]
fn a_child_passes_the_tests_of_any_space() {
    for (policy, retain) in [(Policy::Lowest, 0), (Policy::Lowest, 64 << 12), (Policy::Highest, 64 << 12)] {
        let seed = env::seed(21);
        let root = Root::new(Options::new(range(0x7_0003, 0x7_8003)).seed(seed).build()).expect("a root");
        let config = plain().config(Config::default().cache_bytes(retain).policy(policy));
        let space = root.child("all", Site::highest(pages(1 << 12)), config).expect("room");
        let generator = SpaceGenerator::new(Seeded::new(seed), space.geometry().span, Sim::PAGE_SHIFT);
        let session = SpaceSession::new(space, Below(SimWitness::new(seed)));
        let result = session.run(generator.live(100).faults(6), env::ops(10_000));
        let _ = result.unwrap_or_else(|failure| panic!("VMALLOC_SEED={seed:#x}: {failure}"));
        finish(&root);
    }
}

#[test]
fn children_come_and_go_on_many_threads() {
    let root = root();
    std::thread::scope(|scope| {
        for (thread, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let root = &root;
            scope.spawn(move || {
                Sim::run_on(thread);
                for round in 1..60 {
                    let site = if round % 2 == 0 { Site::lowest } else { Site::highest };
                    let child = root.child(name, site(pages(0x40 + round)), bare()).expect("room for four");
                    let addrs: Vec<_> = (0..round % 8)
                        .map(|count| child.alloc(&Request::new(pages(1 + count))).expect("room"))
                        .collect();
                    addrs.iter().step_by(2).for_each(|&addr| free(&child, addr));
                }
            });
        }
    });
    finish(&root);
}
