//! What an area gains as it is made or grows, and what a space gets back as areas go: a byte, a
//! page or an address more or less than documented is a mistake.

use vmalloc::{AreaError, Config, FrameSupply, FreeError, Request, Space};
use vmalloc_sim::harness::{check, check_whole};
use vmalloc_sim::{Direct, Options, Sim};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

fn direct(config: Config, choose: impl FnOnce(Options) -> Options) -> Space<Direct> {
    Sim::run_on(0);
    Space::new(Direct::new(1 << 12, |options| choose(options.cpus(1))), config).expect("a space")
}

fn bytes(addr: usize, len: usize) -> &'static [u8] {
    // SAFETY: the callers look at areas of the test's, of at least so many bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr), len) }
}

fn fill(addr: usize, len: usize, byte: u8) {
    // SAFETY: the callers write to areas of the test's, of at least so many bytes.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(byte, len) };
}

fn free(space: &Space<Direct>, addr: usize) {
    // SAFETY: the area is the test's, and nothing uses it any more.
    unsafe { space.raw().free(addr) }.expect("it is busy");
}

#[test]
fn zeroed_memory_is_zero_whether_new_pages_are_zero_or_not() {
    for config in [Config::default(), Config::default().unmap_on_free()] {
        for space in [direct(config, |it| it), direct(config, Options::dirty)] {
            for size in [1, PAGE, 3 * PAGE + 5, 40 * PAGE] {
                // New pages, and then cached ones.
                for _ in 0..2 {
                    let addr = space.raw().alloc(&Request::new(size).zeroed()).expect("there is room");
                    assert!(bytes(addr, size).iter().all(|&byte| byte == 0), "{size} bytes");
                    fill(addr, size, 7);
                    free(&space, addr);
                }
            }
            check(&space);
        }
    }
}

#[test]
fn realloc_zeroes_what_is_new_behind_an_odd_size_and_nothing_else() {
    for space in [direct(Config::default(), |it| it), direct(Config::default(), Options::dirty)] {
        for (old, new) in [(5000, 9000), (PAGE + 1, 20 * PAGE + 3), (100, 101), (3 * PAGE, 3 * PAGE + 1)] {
            let addr = space.raw().alloc(&Request::new(old)).expect("there is room");
            let usable = space.usable_size(addr).expect("an area");
            fill(addr, usable, 7);
            // SAFETY: the area is the test's, and the old address is not used any more.
            let addr = unsafe { space.raw().realloc(addr, &Request::new(new).zeroed()) }.expect("room");
            assert!(bytes(addr, old).iter().all(|&byte| byte == 7), "{old} to {new}: content");
            // The bytes behind the size asked for were the area's as well.
            let known = usable.min(new);
            assert!(bytes(addr, new)[known..].iter().all(|&byte| byte == 0), "{old} to {new}: zeros");
            free(&space, addr);
        }
        check(&space);
    }
}

#[test]
fn grow_in_place_gets_free_addresses_and_those_that_wait_for_reuse() {
    let config = Config::default().unmap_on_free().guard(false);
    let space = direct(config, |it| it);
    let [first, second, third] =
        [4, 4, 4].map(|pages| space.raw().alloc(&Request::new(pages * PAGE)).expect("room"));
    assert_eq!([second, third], [first + 4 * PAGE, first + 8 * PAGE], "side by side");
    // SAFETY: the areas are the test's.
    let grow = |addr: usize, pages: usize| unsafe { space.raw().grow_in_place(addr, pages * PAGE) };
    assert_eq!(grow(third, 9), Ok(()), "the addresses behind it are free");
    assert_eq!(space.usable_size(third), Some(9 * PAGE));
    assert!(matches!(grow(first, 5), Err(AreaError::Alloc(_))), "the next area is busy");
    assert_eq!(space.usable_size(first), Some(4 * PAGE));
    free(&space, second);
    assert_eq!(grow(first, 8), Ok(()), "the next area waits for reuse");
    assert_eq!(space.usable_size(first), Some(8 * PAGE));
    check(&space);
    [first, third].into_iter().for_each(|addr| free(&space, addr));
    check_whole(&space);
}

/// Room to grow again is for spaces that cache areas and allow that much slack.
#[test]
fn a_large_area_that_grows_gets_room_only_where_slack_is_allowed() {
    let plain = Config::default().guard(false);
    for (config, has_room) in [
        (plain.max_slack_percent(25), true),
        (plain.max_slack_percent(0), false),
        (plain.unmap_on_free().max_slack_percent(25), false),
    ] {
        let space = direct(config, |it| it.max_slack_percent(25));
        let addr = space.raw().alloc(&Request::new(1024 * PAGE)).expect("room");
        // SAFETY: the area is the test's, and the old address is not used any more.
        let grown = unsafe { space.raw().realloc(addr, &Request::new(1100 * PAGE)) }.expect("room");
        assert_eq!(grown, addr, "in place");
        let pages = space.usable_size(grown).expect("an area") / PAGE;
        assert_eq!(pages > 1100, has_room, "{pages} pages");
        free(&space, grown);
        check(&space);
    }
}

/// Areas that `free_atomic` has freed are no matter for a purge on request alone: where they are
/// too many, an ordinary free has them purged, though few areas are lazy.
#[test]
fn ordinary_frees_purge_what_free_atomic_freed() {
    let space = direct(Config::default().unmap_on_free().lazy_max_pages(64), |it| it);
    let alloc = || space.raw().alloc(&Request::new(2 * PAGE)).expect("there is room");
    let areas: Vec<_> = (0..300).map(|_| alloc()).collect();
    let (few, most) = areas.split_at(5);
    // SAFETY: the areas are the test's, and nothing uses them any more.
    most.iter().for_each(|&addr| unsafe { space.raw().free_atomic(addr) }.expect("it is busy"));
    let purged = space.stats().purged_areas;
    few.iter().for_each(|&addr| free(&space, addr));
    let gained = space.stats().purged_areas - purged;
    assert!(gained >= most.len() as u64, "{gained} areas were purged: {:?}", space.stats());
    check(&space);
}

/// An area too large for the pools of addresses, and more small ones than these keep.
#[test]
fn addresses_of_areas_that_trap_at_once_come_back() {
    let span = vmalloc::PageRange::from_len(0x1_0000, 1 << 12).expect("not empty");
    let sim = Options::new(span).cpus(1).frames(1 << 13).build();
    let space = Space::new(sim, Config::default().trap_on_free(true)).expect("a space");
    for pages in [1, 3, 300, 1000] {
        for _ in 0..3 {
            let areas: Vec<_> = (0..2000 / pages)
                .map(|_| space.raw().alloc(&Request::new(pages * PAGE)).expect("there is room"))
                .collect();
            for addr in areas {
                // SAFETY: the area is the test's, and nothing uses it any more.
                unsafe { space.raw().free(addr) }.expect("it is busy");
            }
            check(&space);
        }
    }
    check_whole(&space);
    assert_eq!(space.stats().late_frees, 0);
}

#[test]
fn scattered_frames_are_not_shown_by_the_linear_map() {
    let span = vmalloc::PageRange::from_len(0x1000, 1 << 10).expect("not empty");
    let sim = Options::new(span).cpus(1).frames(256).linear(0x10_0000).build();
    let space = Space::new(sim, Config::default()).expect("a space");
    let linear = space.geometry().linear_map.expect("it has one");
    let mut frames = [vmalloc::Frame(0); 8];
    space.platform().take_frames(&mut frames).expect("there are some");
    frames.sort_unstable_by_key(|frame| frame.0);
    for scattered in [false, true] {
        if scattered {
            frames.reverse();
        }
        let addr = space.raw().map_short(&frames).expect("room");
        assert_eq!(linear.contains((addr / PAGE) as u64), !scattered);
        for (nth, frame) in frames.iter().enumerate() {
            let page = (addr / PAGE + nth) as u64;
            space.platform().write(0, page, frame.0 + 1).expect("it is mapped");
            let direct = linear.start() + frame.0;
            assert_eq!(space.platform().read(0, direct), Ok(frame.0 + 1), "each page shows its frame");
        }
        // SAFETY: the mapping is the test's, and nothing uses it any more.
        unsafe { space.raw().unmap_short(addr, frames.len()) }.expect("it is mapped");
    }
    space.purge().expect("nothing is refused");
    space.verify().expect("intact");
}

/// A thread that looks for a block while a sweep runs may not have one that waits for its flush: it
/// stays where it is.
#[test]
fn blocks_of_short_mappings_come_back_though_purges_sweep_meanwhile() {
    let span = vmalloc::PageRange::from_len(0x1000, 1 << 12).expect("not empty");
    let sim = Options::new(span).cpus(2).frames(256).remaps_atomically().build();
    let space = Space::new(sim, Config::default().block_slots(64)).expect("a space");
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Sim::run_on(1);
            (0..rounds).for_each(|_| space.purge().expect("nothing is refused"));
        });
        Sim::run_on(0);
        let mut frames = [vmalloc::Frame(0); 40];
        space.platform().take_frames(&mut frames).expect("there are some");
        for round in 0..rounds {
            let shown = &frames[..1 + round % 16];
            let addrs = [(); 40].map(|()| space.raw().map_short(shown).expect("room"));
            for addr in addrs {
                // SAFETY: the mapping is the test's, and nothing uses it any more.
                unsafe { space.raw().unmap_short(addr, shown.len()) }.expect("it is mapped");
            }
        }
        // SAFETY: the frames are this test's.
        unsafe { space.platform().give_frames(&frames) };
    });
    check_whole(&space);
    assert_eq!(space.stats().blocks, 0);
}

/// An area with a guard page and one without it have as many pages in all. Neither serves the other
/// when it is freed: the last page of the one must trap, and that of the other must not.
#[test]
fn areas_with_a_guard_and_without_one_do_not_stand_in_for_each_other() {
    let span = vmalloc::PageRange::from_len(0x1000, 1 << 12).expect("not empty");
    for config in [Config::default(), Config::default().unmap_on_free()] {
        let space = Space::new(Options::new(span).cpus(1).frames(256).build(), config).expect("a space");
        // Returns whether the page behind so many pages traps.
        let ends = |request: Request, pages: u64| {
            let addr = space.raw().alloc(&request).expect("there is room");
            let first = (addr / PAGE) as u64;
            (0..pages).for_each(|page| space.platform().write(0, first + page, page).expect("it is mapped"));
            let traps = space.platform().read(0, first + pages).is_err();
            // SAFETY: the area is the test's, and nothing uses it any more.
            unsafe { space.raw().free(addr) }.expect("it is busy");
            traps
        };
        for pages in 1..40 {
            for _ in 0..2 {
                let guarded = Request::new(pages * PAGE);
                assert!(ends(guarded, pages as u64), "{pages} pages, and a guard");
                ends(Request::new((pages + 1) * PAGE).without_guard(), pages as u64 + 1);
            }
        }
        check_whole(&space);
    }
}

#[test]
fn pages_that_their_owner_has_altered_are_not_cached() {
    let space = direct(Config::default(), |it| it);
    for pages in [1, 5, 300] {
        let addr = space.raw().alloc(&Request::new(pages * PAGE)).expect("there is room");
        // SAFETY: the area is the test's, and nothing uses it any more.
        unsafe { space.raw().free_altered(addr) }.expect("it is busy");
        assert_eq!(space.stats().cached_areas, 0, "{pages} pages");
    }
    check(&space);
}

/// A set of frames has room for its shares in lists of the space. Sets that are gone leave none.
#[test]
fn sets_of_frames_that_are_gone_take_no_memory() {
    let span = vmalloc::PageRange::from_len(0x1000, 1 << 10).expect("not empty");
    let space = Space::new(Options::new(span).frames(16).build(), Config::default()).expect("a space");
    let after = |sets: usize| {
        (0..sets).for_each(|_| drop(space.frames(4).expect("there are some")));
        space.stats().metadata_bytes
    };
    let few = after(1);
    assert_eq!(after(1000), few);
}

#[test]
fn an_address_inside_the_first_page_frees_nothing() {
    for config in [Config::default(), Config::default().unmap_on_free()] {
        let space = direct(config, |it| it);
        let alloc = || space.raw().alloc(&Request::new(2 * PAGE)).expect("there is room");
        // So that the common way has room for one more.
        [(); 20].map(|()| alloc()).into_iter().for_each(|addr| free(&space, addr));
        let addr = alloc();
        for inside in [1, 8, PAGE - 1] {
            // SAFETY: it frees nothing.
            let refused = unsafe { space.raw().free(addr + inside) };
            assert_eq!(refused, Err(FreeError::Unaligned { addr: addr + inside }));
        }
        assert_eq!(space.usable_size(addr), Some(2 * PAGE));
        free(&space, addr);
        check(&space);
    }
}

#[test]
fn metadata_of_many_areas_is_counted() {
    let space = direct(Config::default(), |it| it);
    let before = space.stats().metadata_bytes;
    let areas: Vec<_> = (0..1000)
        .map(|_| space.raw().reserve(&Request::new(PAGE).tag("one")).expect("there is room"))
        .collect();
    let gained = space.stats().metadata_bytes - before;
    let tags = areas.len() * size_of::<vmalloc::Tag>();
    assert!(gained >= tags as u64, "{gained} bytes, and the tags alone take {tags}");
    // SAFETY: the areas are the test's, and nothing uses them any more.
    areas.into_iter().for_each(|addr| unsafe { space.raw().unreserve(addr) }.expect("it is busy"));
    check(&space);
}
