//! Population: areas that a program fills get their memory by one call, others by faults.

use crate::common::{free, page_bytes, process};
use std::sync::Arc;
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_harness::{in_own_process, resident};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

/// A space that caches nothing: each area is new memory.
fn space(options: LinuxOptions) -> Arc<Space<Linux>> {
    let options = options.max_bytes(1 << 30).frame_bytes(0).drain_thread(false);
    open(options, SpaceOptions::default().cache_bytes(0)).unwrap()
}

/// Allocates an area, and writes to its first pages. Returns where it is, and how many pages had
/// memory before.
fn alloc(space: &Space<Linux>, pages: usize, written: usize) -> (usize, usize) {
    let addr = space.raw().alloc(&Request::new(pages * page_bytes())).unwrap();
    let before = resident(addr..addr + pages * page_bytes());
    for page in 0..written {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(addr + page * page_bytes());
        // SAFETY: a page of the area. New memory is zero, populated or not.
        unsafe {
            assert_eq!(byte.read(), 0);
            byte.write(1);
        }
    }
    (addr, before)
}

/// Each set of CPUs learns by itself. A huge page would bring memory for pages that nothing has
/// touched.
fn on_one_cpu(test: impl FnOnce() + Send) {
    // SAFETY: a setting of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }, 0);
    process::on_one_cpu(test);
}

/// Areas of one size, one after the other: how many pages are written of each, and how many had
/// memory before.
type Row = (usize, &'static [usize], &'static [usize]);

/// Allocates the areas of all rows in a space.
fn learns(options: LinuxOptions, rows: &[Row]) {
    on_one_cpu(|| {
        let space = space(options);
        for (pages, written, expected) in rows {
            let before: Vec<_> = written.iter().map(|&written| alloc(&space, *pages, written).1).collect();
            assert_eq!(before, *expected, "{pages} pages, of which {written:?} are written");
        }
        space.verify().unwrap();
    });
}

#[test]
fn areas_get_memory_at_once_after_two_that_were_filled() {
    in_own_process(|| {
        let rows: [Row; 8] = [
            (16, &[16; 4], &[0, 0, 12, 12]),
            // Another class of sizes, and the least of a malloc's rounding.
            (100, &[80; 4], &[0, 0, 75, 75]),
            // An area that stays empty ends it until two are filled again.
            (40, &[40, 40, 0, 40, 40, 40], &[0, 0, 30, 0, 0, 30]),
            (20, &[1; 4], &[0; 4]),
            // Small and huge areas are left to faults.
            (7, &[7; 4], &[0; 4]),
            (8, &[8; 4], &[0, 0, 6, 6]),
            (1023, &[1023; 4], &[0, 0, 765, 765]),
            (1024, &[1024; 4], &[0; 4]),
        ];
        learns(LinuxOptions::new().populate(true), &rows);
    });
}

#[test]
fn nothing_is_populated_unless_asked_for() {
    in_own_process(|| {
        learns(LinuxOptions::new(), &[(16, &[16; 4], &[0; 4])]);
        let options = LinuxOptions::new().populate(true).guard_means(GuardMeans::Mprotect);
        learns(options, &[(16, &[16; 4], &[0, 0, 12, 12])]);
    });
}

/// The freed area's memory went back, so nothing is known of it.
#[test]
fn areas_that_were_purged_count_as_empty() {
    in_own_process(|| {
        on_one_cpu(|| {
            let space = space(LinuxOptions::new().populate(true));
            for _ in 0..5 {
                let (addr, before) = alloc(&space, 16, 16);
                assert_eq!(before, 0);
                free(&space, addr);
                space.purge().unwrap();
            }
        });
    });
}
