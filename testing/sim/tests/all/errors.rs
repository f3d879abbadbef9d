//! Messages of a space and of what stands on it: addresses and bytes, and no page numbers.

use crate::short;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::slice;
use vmalloc::{
    AllocError, AreaError, PageRange, PagedArea, PlatformError, PlatformFault, Protection, PurgeError,
    Request, Space, SpaceError, SpaceOptions, Tag,
};
use vmalloc_percpu::{CongruentError, CongruentFreeError};
use vmalloc_short::{ShortError, UnmapError};
use vmalloc_sim::{Due, heap};
use vmalloc_sim::{Options, Point, Sim};
use vmalloc_subspaces::{Root, SubspaceError};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;
/// The first page of all spans here. Numbers of about this size are page numbers: addresses are
/// larger, and sizes, counts and frames are smaller.
const FIRST: u64 = 1 << 34;

const SOURCES: [&str; 5] = [
    include_str!("../../../../crates/vmalloc/src/error.rs"),
    include_str!("../../../../crates/vmalloc-map/src/error.rs"),
    include_str!("../../../../crates/vmalloc-percpu/src/error.rs"),
    include_str!("../../../../crates/vmalloc-short/src/error.rs"),
    include_str!("../../../../crates/vmalloc-subspaces/src/error.rs"),
];

/// Variants with figures that no call of a space returns, or that are of a platform's author.
const NOT_HERE: [&str; 5] = [
    // Of a `Fit`, in pages.
    "RequestError::PhaseTooLarge",
    "RequestError::BadBoundary",
    // Of a group in an address map.
    "CongruentError::Request",
    // A map tells them, in pages.
    "FitError",
    "NoArea",
];

/// The variants that were seen, as `Type::Variant`.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    fn note(&mut self, of: &str, error: &(impl Display + Debug)) {
        let (text, debug) = (error.to_string(), format!("{error:?}"));
        let numbers = text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| {
            word.strip_prefix("0x").map_or(word.parse(), |digits| u64::from_str_radix(digits, 16)).ok()
        });
        let is_page = |number: &u64| (FIRST / 2..FIRST * 2).contains(number);
        assert_eq!(numbers.clone().find(is_page), None, "{of}: {text}");
        let variant = debug.split(|c: char| !c.is_alphanumeric()).next().expect("a name");
        self.0.insert(format!("{of}::{variant}"));
    }

    fn alloc(&mut self, error: AllocError) {
        self.note("AllocError", &error);
        if let AllocError::Request(error) = error {
            self.note("RequestError", &error);
        }
    }

    fn area(&mut self, error: AreaError) {
        self.note("AreaError", &error);
        match error {
            AreaError::Area(error) => self.note("FreeError", &error),
            AreaError::Alloc(error) => self.alloc(error),
            _ => {}
        }
    }
}

/// Returns the variants of all errors that have figures: the others have fixed texts.
fn with_figures() -> BTreeSet<String> {
    let (mut found, mut of) = (BTreeSet::new(), "");
    for line in SOURCES.iter().flat_map(|source| source.lines()) {
        if let Some(name) = line.strip_prefix("pub enum ").and_then(|rest| rest.strip_suffix(" {")) {
            of = name;
        } else if line == "}" {
            of = "";
        } else if let Some(variant) = line.strip_prefix("    ").filter(|_| !of.is_empty()) {
            let name = variant.split(|c: char| !c.is_alphanumeric()).next().expect("a name");
            let has_figures = variant[name.len()..].starts_with([' ', '(']);
            if name.starts_with(|c: char| c.is_ascii_uppercase()) && has_figures {
                found.insert(format!("{of}::{name}"));
            }
        }
    }
    found.retain(|name| !NOT_HERE.iter().any(|not| name == not || name.starts_with(&format!("{not}::"))));
    found
}

fn machine(pages: u64) -> Options {
    Options::new(PageRange::from_len(FIRST, pages).expect("not empty"))
}

fn requests(seen: &mut Seen) {
    let space = Space::new(machine(256).build(), SpaceOptions::default()).expect("an empty space");
    let (first, page) = (FIRST as usize * PAGE, Request::new(PAGE));
    for wrong in [
        Request::new(0),
        Request::new(usize::MAX),
        page.align(3),
        page.node(4),
        page.within(first + 1, first + PAGE),
        page.within(first, first + 257 * PAGE),
        Request::new(1 << 30),
        Request::new(PAGE).align(1 << 30).within(first + PAGE, first + 64 * PAGE),
    ] {
        seen.alloc(space.raw().alloc(&wrong).expect_err("it can't be met"));
    }
    space.platform().fail_from(Point::Map, 1);
    seen.alloc(space.raw().alloc(&page).expect_err("the machine fails"));
    space.platform().heal();
    let frames = [vmalloc::Frame(1 << 20)];
    seen.alloc(space.raw().map(&frames, Protection::ReadWrite, None).expect_err("no such frame"));
}

#[allow(unsafe_code)]
fn areas(seen: &mut Seen) {
    let space = Space::new(machine(256).build(), SpaceOptions::default()).expect("an empty space");
    let raw = space.raw();
    let at = |nth: usize| (FIRST as usize + nth) * PAGE;
    let within = |nth: usize| Request::new(PAGE).guard(false).within(at(nth), at(nth + 2));
    let (addr, next) = (raw.alloc(&Request::new(2 * PAGE).within(at(0), at(3))), raw.reserve(&within(3)));
    let (addr, next) = (addr.expect("room"), next.expect("room"));
    // SAFETY: nothing uses the areas, and what is freed is the test's.
    unsafe {
        for wrong in [addr + 1, addr + PAGE, at(128), next] {
            seen.note("FreeError", &raw.free(wrong).expect_err("no such area"));
        }
        seen.area(raw.grow_in_place(addr, 8 * PAGE).expect_err("an area is in the way"));
        seen.area(raw.shrink_in_place(addr, 8 * PAGE).expect_err("it is smaller"));
        seen.area(raw.commit(&[next..next + PAGE, next..next + PAGE]).expect_err("they overlap"));
        seen.area(raw.commit(slice::from_ref(&(next + 1..next + PAGE))).expect_err("not a page"));
        let tag = Tag::new("percpu");
        let many = (64..128).map(|nth| PageRange::from_len(FIRST + nth, 1).expect("one"));
        raw.reserve_all(many.clone(), tag).expect("room");
        let short = || raw.unreserve_all(many, tag);
        let (_, error) = heap::short_of(Due::From(1), short).0.expect_err("no memory");
        seen.note("FreeError", &error);
        raw.free(addr).expect("busy");
        seen.note("FreeError", &raw.free(addr).expect_err("it is free"));
        let three = crate::short(&space).reserve(3).expect("room");
        seen.note("UnmapError", &short_of_two(&space, three));
        seen.note("UnmapError", &short_of_two(&space, three + PAGE / 2));
    }
    let mut area = PagedArea::new(&space, &Request::new(8 * PAGE)).expect("room");
    area.commit(0..2 * PAGE).expect("nothing is there");
    seen.area(area.commit(PAGE..3 * PAGE).expect_err("something is there"));
    seen.area(area.commit(0..9 * PAGE).expect_err("it is smaller"));
    seen.area(area.decommit(4 * PAGE..5 * PAGE).expect_err("nothing is there"));
    space.platform().fail_from(Point::Unmap, 1);
    seen.area(area.decommit(0..2 * PAGE).expect_err("the machine fails"));
    seen.area(area.try_commit(0..2 * PAGE).expect_err("it still has to be unmapped"));
    space.platform().heal();
}

/// Ends a mapping of three pages, or none, as one of two.
#[allow(unsafe_code)]
fn short_of_two(space: &Space<Sim>, addr: usize) -> UnmapError {
    // SAFETY: nothing uses the addresses any more.
    unsafe { short(space).unreserve(addr, 2) }.expect_err("it has three")
}

fn spaces(seen: &mut Seen) {
    let end = u64::MAX >> Sim::PAGE_SHIFT;
    let span = |start, end| Options::new(PageRange::new(start, end).expect("not empty")).frames(1).build();
    let many = SpaceOptions::default().nodes(1000);
    for (machine, options) in [
        (span(0, 16), SpaceOptions::default()),
        (span(end - 15, end + 1), SpaceOptions::default()),
        (span(1, 16), many),
    ] {
        seen.note("SpaceError", &Space::new(machine, options).map(|_| ()).expect_err("no space"));
    }
    let geometry = SpaceError::PageShift { page_shift: 12, constant: 16 };
    seen.note("SpaceError", &geometry);
    seen.note("ShortError", &ShortError::BadBlock { slots: 63 });
    let refused = PlatformError { call: "unmap", fault: PlatformFault::Locked, code: 11 };
    seen.note("PurgeError", &PurgeError::from(refused));
}

fn sub_spaces(seen: &mut Seen) {
    let root = Root::new(machine(256).build()).expect("an empty root");
    let at = |start: u64, pages: u64| {
        let start = (FIRST + start) as usize * PAGE;
        Request::new(pages as usize * PAGE).within(start, start + pages as usize * PAGE)
    };
    let plain = SpaceOptions::default;
    let _one = root.subspace("one", &at(16, 16), None, plain()).expect("room");
    let bad = plain().nodes(1000);
    for (name, request, options) in [
        ("one", at(64, 16), plain()),
        ("two", at(24, 16), plain()),
        ("two", at(250, 16), plain()),
        ("two", Request::new(0), plain()),
        ("two", Request::new(1 << 30), plain()),
        ("two", at(64, 16), bad),
    ] {
        let refused = root.subspace(name, &request, None, options).map(|_| ()).expect_err("a conflict");
        seen.note("SubspaceError", &refused);
        if let SubspaceError::Request(error) = refused {
            seen.note("RequestError", &error);
        }
    }
}

#[allow(unsafe_code)]
fn groups(seen: &mut Seen) {
    let space = Space::new(machine(256).build(), SpaceOptions::default()).expect("an empty space");
    for (offsets, sizes, align) in [
        (&[0][..], &[1, 1][..], PAGE),
        (&[0, 100], &[1, 1], PAGE),
        (&[0], &[0], PAGE),
        (&[0], &[usize::MAX], PAGE),
        (&[0, 0], &[1, 1], PAGE),
        (&[0], &[1], 3),
        (&[0], &[1], PAGE / 2),
        (&[0, 128 * PAGE], &[PAGE, 200 * PAGE], PAGE),
    ] {
        let refused: CongruentError =
            vmalloc_percpu::alloc(&space, offsets, sizes, align).expect_err("it is wrong");
        seen.note("CongruentError", &refused);
    }
    let (offsets, sizes) = ([0, 8 * PAGE], [PAGE, 2 * PAGE]);
    let base = vmalloc_percpu::alloc(&space, &offsets, &sizes, PAGE).expect("room");
    for (base, sizes) in [(base, &[PAGE, 3 * PAGE][..]), (base + 1, &sizes), (base, &[PAGE])] {
        // SAFETY: nothing uses the addresses.
        let refused: CongruentFreeError =
            unsafe { vmalloc_percpu::free(&space, base, &offsets, sizes) }.expect_err("it is wrong");
        seen.note("CongruentFreeError", &refused);
    }
}

#[test]
fn no_message_of_a_space_has_a_page_number() {
    let mut seen = Seen::default();
    requests(&mut seen);
    areas(&mut seen);
    spaces(&mut seen);
    sub_spaces(&mut seen);
    groups(&mut seen);
    let missing: Vec<_> = with_figures().into_iter().filter(|name| !seen.0.contains(name)).collect();
    assert_eq!(missing, Vec::<String>::new(), "a new error needs a call here that returns it");
}
