//! Memory of any size, in huge pages, and where nothing may be waited for.

use crate::mappings::support::{
    PAGE, PAGES, everywhere, fill, finish, free, kind, page, plain, shows, space,
};
use vmalloc::{AllocError, Kind, Request, Space, SpaceOptions};
use vmalloc_sim::Sim;

#[test]
fn huge_pages_are_used_where_there_are_some_and_base_pages_elsewhere() {
    everywhere(PAGES, |space| {
        let before = space.platform().counts().huge_pages;
        let addr = space.raw().alloc(&Request::new(20 * PAGE).huge().zeroed()).expect("room");
        assert_eq!((page(addr) % 8, space.platform().counts().huge_pages - before), (0, 2));
        shows(space, addr, &[0; 20]);
        fill(space, addr, 20);
        free(space, addr);
        let small = space.raw().alloc(&Request::new(7 * PAGE).huge()).expect("room");
        assert_eq!(space.platform().counts().huge_pages - before, 2, "smaller than one");
        free(space, small);
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
    CALLS.iter().for_each(|(name, call)| refuses_to_wait(name, *call));
}
