//! A machine that refuses to unmap or to flush some pages, for a while or for good: these stay back
//! alone, nothing is lost, and everything else goes on.

mod areas;
mod frames;

use crate::set_block_slots;
use crate::{PAGE, free};
use vmalloc::{PageRange, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{Simulated, check, check_whole};
use vmalloc_sim::{Discard, Options, Point, Sim};

/// The calls that refuse pages.
const CALLS: [Point; 2] = [Point::Unmap, Point::Flush];

/// Returns a space of so many pages.
fn space(pages: u64, space_options: SpaceOptions) -> Space<Sim> {
    Sim::run_on(0);
    let span = PageRange::from_len(0x1000, pages).expect("not empty");
    let space =
        Space::new(options(Options::new(span), pages).build(), space_options).expect("an empty space");
    set_block_slots(&space, 64);
    space
}

fn options(options: Options, pages: u64) -> Options {
    options.cpus(2).frames(2 * pages).seed(1).discard(Discard::Keeps)
}

/// A freed area becomes lazy at once, and is purged when it is asked for.
fn lazy() -> SpaceOptions {
    SpaceOptions::default().unmap_on_free()
}

fn alloc<P: Simulated>(space: &Space<P>, pages: usize) -> usize {
    let addr = space.raw().alloc(&Request::new(pages * PAGE)).expect("there is room");
    touch(space, addr, pages);
    addr
}

/// Uses pages on all CPUs, so that each remembers them.
fn touch<P: Simulated>(space: &Space<P>, addr: usize, pages: usize) {
    for page in range(addr, pages).start()..range(addr, pages).end() {
        (0..2).for_each(|cpu| space.platform().machine().write(cpu, page, page).expect("it is mapped"));
    }
}

fn range(addr: usize, pages: usize) -> PageRange {
    PageRange::from_len((addr / PAGE) as u64, pages as u64).expect("not empty")
}

/// Has the page at `addr` refused.
fn refuse<P: Simulated>(space: &Space<P>, call: Point, addr: usize) {
    space.platform().machine().refuse(call, range(addr, 1));
}

/// Calls of `unmap` and `flush` that `act` leads to, those that fail as well.
fn calls(space: &Space<Sim>, act: impl FnOnce()) -> u64 {
    let sum = || {
        let counts = space.platform().counts();
        counts.unmaps + counts.flushes + counts.failed
    };
    let before = sum();
    act();
    sum() - before
}

/// The machine relents, and then everything is given back.
fn finish<P: Simulated>(space: &Space<P>) {
    check(space);
    space.platform().machine().relent();
    check_whole(space);
    let stats = space.stats();
    assert_eq!((stats.refused_areas, stats.refused_pages), (0, 0));
    assert_eq!((stats.refused_parts, stats.pending_ranges), (0, 0), "{stats:?}");
}
