//! Changing the size of memory, on a machine with real bytes.

use crate::mappings::support::{
    Context, PAGE, PAGES, cpus, faults, finish, forgotten, free, page, pages, unchanged,
};
use vmalloc::{AllocError, AreaError, Config, Request, RequestError, Space};
use vmalloc_sim::harness::check;
use vmalloc_sim::{Direct, Discard, Options, Point, Sim};

/// Too large for pools: what is behind such an area is free.
const LARGE: usize = 300;

fn direct(config: Config, choose: impl FnOnce(Options) -> Options) -> Space<Direct> {
    Sim::run_on(0);
    let machine =
        Direct::new(PAGES, |options| choose(options.cpus(3).huge_order(3).on_violation(Default::default())));
    Space::new(machine, config).expect("an empty space")
}

/// Machines that move pages, and machines that don't; kept or unmapped.
fn everywhere(test: impl Fn(&Space<Direct>)) {
    let settings = [
        Config::default(),
        Config::default().unmap_on_free(),
        Config::default().unmap_on_free().guard(false),
    ];
    for config in settings {
        for discard in [Discard::Unmaps, Discard::Keeps] {
            for moves in ["moves", "copies"] {
                let _context = Context((config, moves));
                let space = direct(config, |options| {
                    let options = options.discard(discard);
                    if moves == "moves" { options.relocates() } else { options }
                });
                test(&space);
                finish(&space);
            }
        }
    }
}

fn alloc(space: &Space<Direct>, bytes: usize) -> usize {
    space.raw().alloc(&Request::new(bytes)).expect("room")
}

fn realloc(space: &Space<Direct>, addr: usize, bytes: usize) -> usize {
    try_realloc(space, addr, bytes).expect("room")
}

fn try_realloc(space: &Space<Direct>, addr: usize, bytes: usize) -> Result<usize, AreaError> {
    // SAFETY: the area is the test's, and the old address is not used again when it moves.
    unsafe { space.raw().realloc(addr, &vmalloc::Request::new(bytes)) }
}

/// Every CPU remembers the pages.
fn remember(space: &Space<Direct>, addr: usize) {
    let area = space.find(addr).expect("busy");
    cpus(space).for_each(|cpu| space.platform().sim().prefetch(cpu, pages(addr, area.pages as usize)));
}

/// Returns a byte for each place, none of them what poison or zeros are.
fn pattern(nth: usize) -> u8 {
    (nth % 211) as u8 + 1
}

fn bytes(addr: usize, count: usize) -> &'static mut [u8] {
    // SAFETY: the caller has mapped memory of that length there, which nothing else uses while this
    // lives.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(addr), count) }
}

fn write(space: &Space<Direct>, addr: usize, count: usize) {
    bytes(addr, count).iter_mut().enumerate().for_each(|(nth, byte)| *byte = pattern(nth));
    remember(space, addr);
}

fn holds(addr: usize, count: usize) {
    let wrong = bytes(addr, count).iter().enumerate().find(|&(nth, &byte)| byte != pattern(nth));
    assert_eq!(wrong, None, "of {count} bytes");
}

/// The area at `addr` has this size and its guard, and can be used from end to end on every CPU.
fn is_sound(space: &Space<Direct>, addr: usize, size: usize) {
    let area = space.find(addr).expect("busy");
    let count = size.div_ceil(PAGE);
    assert_eq!((area.addr, area.bytes, area.pages), (addr, size, count as u64));
    for cpu in cpus(space) {
        for page in page(addr)..page(addr) + area.pages {
            space.platform().sim().read(cpu, page).expect("it is mapped");
        }
    }
    if area.guard {
        faults(space, addr + count * PAGE, 1);
    }
    check(space);
}

#[test]
fn grows_in_place_where_the_neighbour_is_free() {
    everywhere(|space| {
        let addr = alloc(space, LARGE * PAGE);
        write(space, addr, LARGE * PAGE);
        for pages in [LARGE + 1, LARGE + 7, 2 * LARGE] {
            assert_eq!(realloc(space, addr, pages * PAGE - 5), addr);
            holds(addr, LARGE * PAGE);
            is_sound(space, addr, pages * PAGE - 5);
        }
        assert_eq!(space.platform().sim().counts().relocations, 0);
        write(space, addr, 2 * LARGE * PAGE - 5);
        free(space, addr);
    });
}

#[test]
fn pages_grown_in_place_are_zeroed() {
    everywhere(|space| {
        let addr = alloc(space, LARGE * PAGE);
        write(space, addr, LARGE * PAGE);
        assert_eq!(realloc(space, addr, (LARGE + 5) * PAGE), addr);
        assert!(bytes(addr + LARGE * PAGE, 5 * PAGE).iter().all(|&byte| byte == 0));
        free(space, addr);
    });
}

#[test]
fn moves_where_the_neighbour_is_in_use_and_keeps_its_content() {
    everywhere(|space| {
        let addr = alloc(space, LARGE * PAGE - 100);
        let neighbour = alloc(space, LARGE * PAGE);
        write(space, addr, LARGE * PAGE - 100);
        Sim::run_on(1);
        let moved = realloc(space, addr, (LARGE + 1) * PAGE);
        assert_ne!(moved, addr);
        holds(moved, LARGE * PAGE - 100);
        is_sound(space, moved, (LARGE + 1) * PAGE);
        space.flush().expect("nothing fails");
        forgotten(space, addr, LARGE);
        holds(moved, LARGE * PAGE - 100);
        [moved, neighbour].into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn moved_area_grows_in_place_next_time() {
    everywhere(|space| {
        let addr = alloc(space, LARGE * PAGE);
        let neighbour = alloc(space, LARGE * PAGE);
        write(space, addr, LARGE * PAGE);
        let moved = realloc(space, addr, (LARGE + 1) * PAGE);
        assert_eq!(realloc(space, moved, (2 * LARGE) * PAGE), moved, "as much again was free behind it");
        holds(moved, LARGE * PAGE);
        is_sound(space, moved, 2 * LARGE * PAGE);
        [moved, neighbour].into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn small_memory_grows_step_by_step() {
    everywhere(|space| {
        let mut addr = alloc(space, 1);
        write(space, addr, 1);
        let mut size = 1;
        for next in
            [2, 100, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 7, 17 * PAGE, 64 * PAGE - 1, 65 * PAGE, 500 * PAGE]
        {
            addr = realloc(space, addr, next);
            holds(addr, size);
            is_sound(space, addr, next);
            size = next;
            write(space, addr, size);
        }
        free(space, addr);
    });
}

#[test]
fn shrinking_gives_pages_back_and_moves_the_guard() {
    everywhere(|space| {
        let addr = alloc(space, 2 * LARGE * PAGE);
        let neighbour = alloc(space, LARGE * PAGE);
        write(space, addr, 2 * LARGE * PAGE);
        for pages in [2 * LARGE - 1, LARGE, 3, 1] {
            let before = space.stats();
            assert_eq!(realloc(space, addr, pages * PAGE - 1), addr);
            let given = before.busy_pages - space.stats().busy_pages;
            assert_eq!(
                space.stats().free_pages + space.stats().pooled_pages,
                before.free_pages + before.pooled_pages + given
            );
            forgotten(space, addr + pages * PAGE, (2 * LARGE) - pages);
            holds(addr, pages * PAGE - 1);
            is_sound(space, addr, pages * PAGE - 1);
        }
        [addr, neighbour].into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn pages_cut_off_are_reused() {
    everywhere(|space| {
        let addr = alloc(space, 2 * LARGE * PAGE);
        write(space, addr, 2 * LARGE * PAGE);
        realloc(space, addr, LARGE * PAGE);
        let tail = alloc(space, (LARGE - 1) * PAGE);
        assert!(tail > addr && tail <= addr + (LARGE + 1) * PAGE, "{tail:#x} behind {addr:#x}");
        assert!(bytes(tail, PAGE).iter().all(|&byte| byte == 0), "fresh memory");
        write(space, tail, (LARGE - 1) * PAGE);
        holds(addr, LARGE * PAGE);
        assert_ne!(realloc(space, addr, 2 * LARGE * PAGE), addr, "that is not free any more");
        holds(tail, (LARGE - 1) * PAGE);
        let areas: Vec<usize> = space.areas().map(|area| area.addr).collect();
        areas.into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn tags_odd_sizes_and_missing_guards_stay() {
    everywhere(|space| {
        for guard in [true, false] {
            let request = Request::new(LARGE * PAGE - 3).tag("a tag");
            let request = if guard { request } else { request.without_guard() };
            let addr = space.raw().alloc(&request).expect("room");
            let neighbour = alloc(space, LARGE * PAGE);
            let has_guard = space.find(addr).expect("busy").guard;
            write(space, addr, LARGE * PAGE - 3);
            let mut at = addr;
            for size in
                [LARGE * PAGE, LARGE * PAGE - 1, 77, LARGE * PAGE + 1, 3 * LARGE * PAGE + 9, PAGE, PAGE + 1]
            {
                at = realloc(space, at, size);
                holds(at, size.min(77));
                let area = space.find(at).expect("busy");
                assert_eq!((area.bytes, area.tag, area.guard), (size, Some("a tag".into()), has_guard));
                check(space);
            }
            [at, neighbour].into_iter().for_each(|addr| free(space, addr));
        }
    });
}

#[test]
fn within_the_last_page_only_the_size_changes() {
    everywhere(|space| {
        let addr = alloc(space, 3 * PAGE);
        write(space, addr, 3 * PAGE);
        let counts = space.platform().sim().counts();
        for size in [3 * PAGE - 1, 2 * PAGE + 1, 3 * PAGE] {
            assert_eq!(realloc(space, addr, size), addr);
            is_sound(space, addr, size);
        }
        assert_eq!(space.platform().sim().counts(), counts, "the machine was asked for nothing");
        free(space, addr);
    });
}

#[test]
fn a_refusal_leaves_memory_as_it_was() {
    let space = direct(Config::default().unmap_on_free(), |options| options.relocates());
    let addr = alloc(&space, LARGE * PAGE);
    write(&space, addr, LARGE * PAGE);
    for size in [usize::MAX, isize::MAX as usize, (PAGES as usize + 1) * PAGE, 0] {
        let refused = try_realloc(&space, addr, size);
        let is_right = match refused {
            Err(AreaError::Alloc(AllocError::Request(RequestError::ZeroSize))) => size == 0,
            Err(AreaError::Alloc(AllocError::Request(RequestError::SizeOverflow { .. }))) => {
                size > usize::MAX / 4
            }
            Err(AreaError::Alloc(AllocError::NoSpace(_))) => size == (PAGES as usize + 1) * PAGE,
            _ => false,
        };
        assert!(is_right, "{size:#x}: {refused:?}");
        holds(addr, LARGE * PAGE);
        is_sound(&space, addr, LARGE * PAGE);
    }
    free(&space, addr);
    finish(&space);
}

#[test]
fn failed_resize_changes_nothing() {
    let space = direct(Config::default(), |options| options);
    let plain = alloc(&space, 3 * PAGE);
    let exec = space.raw().alloc_exec(&Request::new(PAGE)).expect("room");
    let reserved = space.raw().reserve(&Request::new(PAGE)).expect("room");
    let freed = alloc(&space, LARGE * PAGE);
    free(&space, freed);
    let outside = (space.geometry().span.end() as usize + 5) * PAGE;
    let heap = Box::new(0u64);
    let foreign = [0, 8, usize::MAX, outside, std::ptr::from_ref(&*heap).addr(), freed];
    for addr in foreign.into_iter().chain([plain + PAGE, plain + 1, plain + 3 * PAGE, exec, reserved]) {
        let refused = unchanged(&space, || try_realloc(&space, addr, 100 * PAGE));
        assert!(matches!(refused, Err(AreaError::Area(_))), "{addr:#x}: {refused:?}");
    }
    [plain, exec].into_iter().for_each(|addr| free(&space, addr));
    // SAFETY: nothing uses the addresses any more.
    unsafe { space.raw().unreserve(reserved) }.expect("it is reserved");
    finish(&space);
}

/// Pages that the machine refuses to unmap when memory shrinks are unmapped by the next purge: also
/// the page that is the guard now.
#[test]
fn refused_guard_faults_after_the_next_purge() {
    for point in [Point::Unmap, Point::Flush] {
        let space = direct(Config::default().unmap_on_free(), |options| options);
        let addr = alloc(&space, LARGE * PAGE);
        write(&space, addr, LARGE * PAGE);
        space.platform().sim().fail_nth(point, 1);
        assert_eq!(realloc(&space, addr, 3 * PAGE), addr);
        space.purge().expect("nothing fails any more");
        is_sound(&space, addr, 3 * PAGE);
        free(&space, addr);
        finish(&space);
    }
}

#[test]
fn memory_grows_over_a_refused_guard() {
    for point in [Point::Unmap, Point::Flush] {
        let space = direct(Config::default().unmap_on_free(), |options| options);
        let addr = alloc(&space, LARGE * PAGE);
        write(&space, addr, LARGE * PAGE);
        space.platform().sim().fail_nth(point, 1);
        realloc(&space, addr, 3 * PAGE);
        space.purge().expect("nothing fails any more");
        let grown = realloc(&space, addr, 2 * LARGE * PAGE);
        holds(grown, 3 * PAGE);
        is_sound(&space, grown, 2 * LARGE * PAGE);
        free(&space, grown);
        finish(&space);
    }
}

#[test]
fn cached_memory_is_evicted_for_growth() {
    let space = direct(Config::default(), |options| options.frames(40).relocates());
    let [addr, freed] = [0; 2].map(|_| alloc(&space, 16 * PAGE));
    write(&space, addr, 16 * PAGE);
    free(&space, freed);
    let grown = realloc(&space, addr, 30 * PAGE);
    holds(grown, 16 * PAGE);
    free(&space, grown);
    finish(&space);
}
