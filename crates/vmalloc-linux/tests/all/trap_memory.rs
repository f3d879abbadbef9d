//! Where the memory of areas comes from whose frees trap at once, and how many mappings they take.

use crate::common::trapping::*;
use crate::common::*;
use std::collections::BTreeSet;
use vmalloc::SpaceOptions;
use vmalloc_harness::map_limit;
use vmalloc_linux::{GuardMeans, LinuxOptions, open};

/// Areas take memory page by page until an earlier one was filled.
#[test]
fn areas_take_memory_as_they_are_touched_until_earlier_ones_were_filled() {
    in_own_process(|| {
        let Some(space) = with_userfault(LinuxOptions::new().drain_thread(false)) else { return };
        let faults_of = |touched: usize| {
            let addr = alloc(&space, 1000);
            let before = page_faults();
            fill_area(addr, touched, 1);
            let faults = page_faults() - before;
            free(&space, addr);
            traps(addr, 1001);
            faults
        };
        // `traps` itself takes faults, and so may the first touch of a table of pages.
        assert!((0..5).all(|_| faults_of(125) >= 125), "pages come at a touch");
        assert!(faults_of(1000) >= 1000, "pages come at a touch");
        assert!((0..5).all(|_| faults_of(1000) < 100), "pages come from the stash");
    });
}

/// The budget of the stash is for sizes that are in use: small runs make way.
#[test]
fn a_stash_that_is_full_of_small_runs_takes_large_ones() {
    in_own_process(|| {
        let options = LinuxOptions::new().drain_thread(false);
        let Some(space) = with_stash(options, trapping().cache_bytes(100 * page_bytes())) else { return };
        fill_stash(&space, 100, 1);
        fill_stash(&space, 1, 90);
        let addr = alloc(&space, 90);
        let before = page_faults();
        fill_area(addr, 90, 1);
        assert!(page_faults() - before < 45, "pages come from the stash");
        free(&space, addr);
    });
}

/// Areas that were opened leave no mappings behind: the kernel merges them with those beside them.
#[test]
fn freed_areas_are_one_mapping_again() {
    in_own_process(|| {
        for space_options in [trapping().unmap_on_free(), SpaceOptions::default().unmap_on_free()] {
            for guards in [GuardMeans::Userfault, GuardMeans::Mprotect] {
                let options = LinuxOptions::new().max_bytes(span()).guard_means(guards).drain_thread(false);
                let Some(space) = opened(open(options, space_options)) else { continue };
                let before = mappings(space.platform());
                let areas: Vec<_> = (0..1000).map(|index| alloc(&space, 1 + index % 7)).collect();
                let most = mappings(space.platform());
                areas.iter().enumerate().for_each(|(index, addr)| fill_area(*addr, 1 + index % 7, 1));
                areas.iter().for_each(|addr| free(&space, *addr));
                space.purge().unwrap();
                let after = mappings(space.platform());
                assert!(most > before + 1000 && after < before + 20, "{guards:?}: {before} {most} {after}");
            }
        }
    });
}

#[test]
fn a_purge_gives_the_memory_of_the_stash_back() {
    in_own_process(|| {
        let Some(space) = with_userfault(LinuxOptions::new().drain_thread(false)) else { return };
        // A first time for what else grows with it: a sanitizer's shadow of the areas.
        fill_stash(&space, 500, 32);
        space.purge().unwrap();
        let before = status_bytes("RssAnon");
        fill_stash(&space, 500, 32);
        assert!(status_bytes("RssAnon") > before + (40 << 20), "the stash keeps it");
        space.decay().unwrap();
        assert!(status_bytes("RssAnon") < before + (60 << 20), "a quarter goes");
        space.purge().unwrap();
        assert!(status_bytes("RssAnon") < before + (8 << 20), "all of it goes");
        let addr = alloc(&space, 32);
        fill_area(addr, 32, 1);
        free(&space, addr);
    });
}

/// A page that the program has dropped itself is missing in the stash, and in no area after it.
#[test]
fn a_dropped_page_is_in_no_later_area() {
    let Some(space) = with_userfault(LinuxOptions::new()) else { return };
    for _ in 0..10 {
        let addr = alloc(&space, 16);
        fill_area(addr, 16, 1);
        let page = byte(addr + 5 * page_bytes());
        // SAFETY: the area is the test's, which does not touch the page again.
        assert_eq!(unsafe { libc::madvise(page.cast(), page_bytes(), libc::MADV_DONTNEED) }, 0);
        free(&space, addr);
        let next = alloc(&space, 16);
        fill_area(next, 16, 2);
        assert_area(next, 16, 2);
        free(&space, next);
    }
}

/// No later area shows a stale write from the time when nothing trapped.
#[test]
fn new_areas_are_zero_after_the_program_has_closed_the_descriptor() {
    in_own_process(|| {
        let options = LinuxOptions::new().drain_thread(false);
        let Some(space) = with_stash(options, trapping().unmap_on_free()) else { return };
        let areas = [1, 16, 16].map(|pages| (alloc(&space, pages), pages));
        areas.iter().for_each(|(addr, _)| free(&space, *addr));
        // SAFETY: this process was made for it.
        unsafe { process::close_from(3) };
        // SAFETY: no area, but pages of the span, which can be written until the next allocation.
        areas.iter().for_each(|(addr, _)| unsafe { byte(*addr).write_volatile(1) });
        let again = areas.map(|(_, pages)| (alloc(&space, pages), pages));
        assert_eq!(
            again.map(|(addr, _)| addr).iter().collect::<BTreeSet<_>>(),
            areas.iter().map(|(addr, _)| addr).collect(),
            "at the same addresses"
        );
        for (addr, pages) in again {
            // SAFETY: the test has allocated so many pages.
            assert!((0..pages * page_bytes()).all(|at| unsafe { byte(addr + at).read_volatile() } == 0));
        }
    });
}

/// Small areas that find no mapping work without, and leave some to large ones.
#[test]
fn small_areas_leave_mappings_to_large_ones() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        let options = LinuxOptions::new().drain_thread(false);
        let Some(space) = with_stash(options, trapping().unmap_on_free()) else { return };
        let areas: Vec<_> = (0..max as usize / 2).map(|_| alloc(&space, 2)).collect();
        let most = max as usize / 2 + 10;
        assert!((most / 2..most).contains(&mappings(space.platform())));
        let large: Vec<_> = (0..20).map(|_| alloc(&space, LARGE)).collect();
        large.iter().for_each(|addr| fill_area(*addr, LARGE, 1));
        areas.iter().for_each(|addr| assert_area(*addr, 2, 0));
        areas.iter().for_each(|addr| fill_area(*addr, 2, 1));
        let last = *areas.last().unwrap();
        traps(last + 2 * page_bytes(), 1);
        areas.iter().chain(&large).for_each(|addr| free(&space, *addr));
        traps(last, 3);
        traps(large[19], LARGE + 1);
        assert_eq!(space.stats().late_frees, 0);
    });
}
