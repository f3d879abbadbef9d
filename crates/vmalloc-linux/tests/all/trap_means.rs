//! Frees that trap at once where the kernel has no userfaultfd, no mappings, or little memory.

use crate::common::sandbox::{Call, refused};
use crate::common::trapping::*;
use crate::common::*;
use vmalloc::{Platform, PlatformFault, Request, SpaceOptions};
use vmalloc_harness::kernel_map_limit;
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, ReserveError, open};

#[test]
fn without_userfaultfd_frees_trap_by_other_means() {
    in_own_process(|| {
        let before = with_userfault(LinuxOptions::new().drain_thread(false));
        let is_meant = |_: &Call| true;
        refused(&[libc::SYS_userfaultfd], libc::EPERM, is_meant, |_| {
            let options = LinuxOptions::new().guard_means(GuardMeans::Userfault);
            let insisting = Linux::reserve(options, &SpaceOptions::default());
            let refused = ReserveError::Unsupported { means: "userfaultfd", code: libc::EPERM };
            assert_eq!(insisting.err(), Some(refused));
            let space = open(LinuxOptions::new(), trapping()).unwrap();
            assert_ne!(space.platform().guard_means(), GuardMeans::Userfault);
            let addr = alloc(&space, 16);
            fill_area(addr, 16, 1);
            free(&space, addr);
            traps(addr, 17);
            // A child of such a program uses and frees what it has.
            let Some(before) = before else { return };
            let addr = alloc(&before, 16);
            fill_area(addr, 16, 1);
            in_forked_child(|| {
                assert_area(addr, 16, 1);
                free(&before, addr);
                let refused = before.raw().alloc(&Request::new(page_bytes())).unwrap_err();
                matches!(refused, vmalloc::AllocError::Unbacked(unbacked) if unbacked.cause.fault == PlatformFault::Unsupported)
            });
            free(&before, addr);
            traps(addr, 17);
        });
    });
}

#[test]
fn spaces_that_trap_choose_userfaultfd_and_budgets_may_be_anything() {
    let Ok(linux) = Linux::reserve(LinuxOptions::new(), &trapping()) else { panic!("addresses") };
    if with_userfault(LinuxOptions::new()).is_some() {
        assert_eq!(linux.guard_means(), GuardMeans::Userfault);
        assert!(!linux.geometry().maps_zeroed);
        let means = |linux, space| open(linux, space).unwrap().platform().guard_means();
        assert_eq!(means(LinuxOptions::new(), trapping()), GuardMeans::Userfault);
        assert_ne!(means(LinuxOptions::new(), SpaceOptions::default()), GuardMeans::Userfault);
        let chosen = LinuxOptions::new().guard_means(GuardMeans::Mprotect);
        assert_eq!(means(chosen, trapping()), GuardMeans::Mprotect);
    }
    for bytes in [0, 1, page_bytes(), isize::MAX as usize, usize::MAX] {
        let Some(space) = with_stash(LinuxOptions::new(), trapping().cache_bytes(bytes)) else { return };
        assert_eq!(space.geometry().maps_zeroed, bytes < page_bytes());
        for pages in [1, 2, 50] {
            let addr = alloc(&space, pages);
            fill_area(addr, pages, 1);
            free(&space, addr);
            traps(addr, pages + 1);
        }
    }
}
/// Areas that appear at a touch take mappings, and others none.
#[test]
fn at_the_limit_on_mappings_large_areas_are_refused_and_small_ones_work() {
    in_own_process(|| {
        let Some(max) = kernel_map_limit() else { return };
        let Some(space) = with_userfault(LinuxOptions::new().drain_thread(false)) else { return };
        let (first, second) = (alloc(&space, LARGE), alloc(&space, 5));
        fill_area(first, LARGE, 1);
        let crowd = crowd::Crowd::gather(max);
        let refused = space.raw().alloc(&Request::new(LARGE * page_bytes()));
        let small = space.raw().alloc(&Request::new(9 * page_bytes()));
        // SAFETY: the area is the test's.
        let freed = unsafe { space.raw().free(first) };
        drop(crowd);
        let vmalloc::AllocError::Unbacked(told) = refused.unwrap_err() else { panic!("another error") };
        assert_eq!(told.cause.fault, PlatformFault::MapLimit, "{told}");
        freed.unwrap();
        traps(first, LARGE + 1);
        fill_area(small.unwrap(), 9, 2);
        let again = alloc(&space, LARGE);
        fill_area(again, LARGE, 3);
        [small.unwrap(), again, second].iter().for_each(|addr| free(&space, *addr));
        assert_eq!(space.stats().late_frees, 0);
    });
}
