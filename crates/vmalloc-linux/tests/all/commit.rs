//! Memory at chosen addresses inside reserved areas: committed, decommitted, discarded and reset.

use crate::common::{byte, is_trap, mappings, not_run, page_bytes, spaces};
use std::ops::Range;
use vmalloc_linux::{GuardMeans, LinuxOptions, Request, SpaceOptions, open};

fn pages(addr: usize, pages: Range<usize>) -> Range<usize> {
    addr + pages.start * page_bytes()..addr + pages.end * page_bytes()
}

/// Writes to each page of a range.
fn fill(range: &Range<usize>) {
    for addr in range.clone().step_by(page_bytes()) {
        // SAFETY: the test's pages are committed.
        unsafe { byte(addr).write_volatile(7) };
    }
}

fn sum(range: &Range<usize>) -> u64 {
    // SAFETY: the test's pages are committed.
    range.clone().step_by(page_bytes()).map(|addr| u64::from(unsafe { byte(addr).read_volatile() })).sum()
}

#[test]
fn a_reset_clears_few_pages_and_discards_many() {
    for space in spaces(LinuxOptions::new(), SpaceOptions::default()) {
        let addr = space.raw().reserve(&Request::new(4096 * page_bytes())).unwrap();
        let all = pages(addr, 0..4096);
        // SAFETY: the area is this test's, which keeps to it: here and below.
        unsafe { space.raw().commit(std::slice::from_ref(&all)) }.unwrap();
        for used in [0, 1, 7, 60, 1000, 4096] {
            for nth in 0..used {
                fill(&pages(addr, nth * 4096 / used..nth * 4096 / used + 1));
            }
            // SAFETY: as above.
            unsafe { space.raw().reset(std::slice::from_ref(&all)) }.unwrap();
            assert_eq!(sum(&all), 0, "{used} pages were used");
        }
    }
}

/// Pages of a pool go in and out one at a time, everywhere; the kernel keeps few mappings.
#[test]
fn single_pages_all_over_an_area_cost_no_mapping_each() {
    let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
    if space.platform().guard_means() == GuardMeans::Mprotect {
        let why = "without guard marks each page costs two mappings";
        return not_run("single_pages_all_over_an_area_cost_no_mapping_each", why);
    }
    let addr = space.raw().reserve(&Request::new(8192 * page_bytes())).unwrap();
    let all = pages(addr, 0..8192);
    let mappings = || mappings(space.platform());
    // SAFETY: the area is this test's, which keeps to it: here and below.
    unsafe { space.raw().commit(std::slice::from_ref(&all)) }.unwrap();
    let before = mappings();
    let some: Vec<_> = (0..2000).map(|nth| nth * 4).map(|page| pages(addr, page..page + 1)).collect();
    some.iter().for_each(fill);
    // SAFETY: as above.
    unsafe { space.raw().decommit(&some) }.unwrap();
    assert!(is_trap(some[1999].start));
    assert!(mappings() <= before + 2, "{} mappings, {before} before", mappings());
    // SAFETY: as above.
    unsafe { space.raw().commit(&some) }.unwrap();
    assert_eq!(some.iter().map(sum).sum::<u64>(), 0);
}
