//! Population: areas that a program fills get their memory by one call, others by faults.

use crate::common::PAGE;
use std::sync::Arc;
use std::thread;
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_harness::{in_own_process, resident};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

const PAGES: usize = 16;

/// A space that caches nothing: each area is new memory.
fn space(options: LinuxOptions) -> Arc<Space<Linux>> {
    let options = options.max_bytes(1 << 30).frame_bytes(0).drain_thread(false);
    open(options, SpaceOptions::default().cache_bytes(0)).unwrap()
}

/// Allocates an area, and writes to its first pages. Returns where it is, and how many pages had
/// memory before.
fn alloc(space: &Space<Linux>, pages: usize, written: usize) -> (usize, usize) {
    let addr = space.raw().alloc(&Request::new(pages * PAGE)).unwrap();
    let before = resident(addr, pages);
    for page in 0..written {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(addr + page * PAGE);
        // SAFETY: a page of the area. New memory is zero, populated or not.
        unsafe {
            assert_eq!(byte.read(), 0);
            byte.write(1);
        }
    }
    (addr, before)
}

/// Returns, for areas of which so many pages are written one after the other, how many pages of
/// each had memory before.
fn before(space: &Space<Linux>, pages: usize, written: &[usize]) -> Vec<usize> {
    written.iter().map(|&written| alloc(space, pages, written).1).collect()
}

/// The CPU may change between two allocations, and each set of CPUs learns by itself. A huge page
/// would bring memory for pages that nothing has touched.
fn on_one_cpu(test: impl FnOnce() + Send) {
    // SAFETY: a setting of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }, 0);
    let body = || {
        // SAFETY: a set of CPUs on this stack, of the size that the kernel is told.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap(), &mut one);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
        }
        test();
    };
    thread::scope(|scope| scope.spawn(body).join().unwrap());
}

#[test]
fn areas_get_memory_at_once_after_two_that_were_filled() {
    in_own_process(|| {
        on_one_cpu(|| {
            let space = space(LinuxOptions::new().populate(true));
            assert_eq!(before(&space, PAGES, &[16, 16, 16, 16]), [0, 0, 12, 12]);
            // Another class of sizes, and the least of a malloc's rounding.
            assert_eq!(before(&space, 100, &[80, 80, 80, 80]), [0, 0, 75, 75]);
            space.verify().unwrap();
        });
    });
}

#[test]
fn an_area_that_stays_empty_ends_it_until_two_are_filled_again() {
    in_own_process(|| {
        on_one_cpu(|| {
            let space = space(LinuxOptions::new().populate(true));
            assert_eq!(before(&space, PAGES, &[16, 16, 0, 16, 16, 16]), [0, 0, 12, 0, 0, 12]);
            assert_eq!(before(&space, PAGES, &[1; 8])[2..], [0; 6]);
        });
    });
}

/// The freed area's memory went back, so nothing is known of it.
#[test]
fn areas_that_were_purged_count_as_empty() {
    in_own_process(|| {
        on_one_cpu(|| {
            let space = space(LinuxOptions::new().populate(true));
            for _ in 0..5 {
                let (addr, before) = alloc(&space, PAGES, PAGES);
                assert_eq!(before, 0);
                // SAFETY: allocated above, and not used any more.
                unsafe { space.raw().free(addr) }.unwrap();
                space.purge().unwrap();
            }
        });
    });
}

#[test]
fn small_and_huge_areas_are_left_to_faults() {
    in_own_process(|| {
        on_one_cpu(|| {
            let space = space(LinuxOptions::new().populate(true));
            assert_eq!(before(&space, 7, &[7; 4]), [0; 4]);
            assert_eq!(before(&space, 8, &[8; 4]), [0, 0, 6, 6]);
            assert_eq!(before(&space, 1023, &[1023; 4])[2..], [765; 2]);
            assert_eq!(before(&space, 1024, &[1024; 4]), [0; 4]);
        });
    });
}

#[test]
fn nothing_is_populated_unless_asked_for() {
    in_own_process(|| {
        on_one_cpu(|| {
            assert_eq!(before(&space(LinuxOptions::new()), PAGES, &[16; 4]), [0; 4]);
            let options = LinuxOptions::new().populate(true).guard_means(GuardMeans::Mprotect);
            assert_eq!(before(&space(options), PAGES, &[16; 4]), [0, 0, 12, 12]);
        });
    });
}
