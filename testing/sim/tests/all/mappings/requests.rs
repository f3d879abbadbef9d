//! Memory of any size, in huge pages, and where nothing may be waited for.

use crate::mappings::support::{
    PAGE, PAGES, everywhere, fill, finish, free, kind, page, pages, plain, shows, space,
};
use vmalloc::{AllocError, Kind, Request, Space, SpaceOptions};
use vmalloc_sim::{Point, Sim};

#[test]
fn huge_pages_are_used_where_there_are_some_and_base_pages_elsewhere() {
    everywhere(|space| {
        let before = space.platform().counts().huge_pages;
        let addr = space.raw().alloc(&Request::new(20 * PAGE).huge().zeroed()).expect("room");
        assert_eq!((page(addr) % 8, space.platform().counts().huge_pages - before), (0, 2));
        shows(space, addr, &[0; 20]);
        fill(space, addr, 20);
        crate::mappings::support::faults(space, addr + 20 * PAGE, 1);
        free(space, addr);
        let small = space.raw().alloc(&Request::new(7 * PAGE).huge()).expect("room");
        assert_eq!(space.platform().counts().huge_pages - before, 2, "smaller than one");
        free(space, small);
    });
}

#[test]
fn base_pages_serve_when_huge_pages_run_out() {
    everywhere(|space| {
        space.platform().fail_from(Point::HugePage, 1);
        let before = space.platform().counts().huge_pages;
        let addr = space.raw().alloc(&Request::new(20 * PAGE).huge()).expect("room");
        space.platform().heal();
        assert_eq!(space.platform().counts().huge_pages, before);
        fill(space, addr, 20);
        free(space, addr);
    });
}

type Call = fn(&Space<Sim>, &Request) -> Result<usize, AllocError>;

const CALLS: [(&str, Call); 4] = [
    ("alloc", |space, request| space.raw().alloc(request)),
    ("reserve", |space, request| space.raw().reserve(request)),
    ("alloc_shared", |space, request| space.raw().alloc_shared(request)),
    ("alloc_exec", |space, request| space.raw().alloc_exec(request)),
];

/// All addresses are lazy, and the request does not wait for a purge.
fn refuses_to_wait(name: &str, call: Call) {
    let space = space(plain(64, 2), SpaceOptions::default().unmap_on_free());
    let lazy = space.raw().alloc(&Request::new(60 * PAGE)).expect("room");
    fill(&space, lazy, 60);
    free(&space, lazy);
    let request = Request::new(40 * PAGE);
    let before = space.stats();
    let refused = call(&space, &request.may_block(false));
    assert!(matches!(refused, Err(AllocError::NoSpace(_))), "{name}: {refused:?}");
    let after = space.stats();
    assert_eq!((after.purges, after.lazy_pages), (before.purges, before.lazy_pages), "{name}");
    let addr = call(&space, &request).expect("a purge makes room");
    match kind(&space, addr) {
        // SAFETY: nothing uses the addresses any more.
        Some(Kind::Reserved) => unsafe { space.raw().unreserve(addr) }.expect("reserved"),
        _ => free(&space, addr),
    }
    finish(&space);
}

#[test]
fn no_block_allocation_never_waits() {
    CALLS[..2].iter().for_each(|(name, call)| refuses_to_wait(name, *call));
}

#[test]
fn no_block_allocation_of_other_kinds_never_waits() {
    CALLS[2..].iter().for_each(|(name, call)| refuses_to_wait(name, *call));
}

#[test]
fn no_block_requests_use_all_free_room() {
    for (name, call) in CALLS {
        let space = space(plain(PAGES, 2), SpaceOptions::default());
        let addr = call(&space, &Request::new(3 * PAGE).may_block(false).tag("now")).expect("room");
        let area = space.find(addr).expect("busy");
        assert_eq!((area.tag, area.pages), (Some("now".into()), 3), "{name}");
        match area.kind {
            // SAFETY: nothing uses the addresses any more.
            Kind::Reserved => unsafe { space.raw().unreserve(addr) }.expect("reserved"),
            _ => {
                space.platform().prefetch(1, pages(addr, 3));
                free(&space, addr);
            }
        }
        finish(&space);
    }
}
