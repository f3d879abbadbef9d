//! The whole allocator on real memory: what is kept, what is refused, and what does not wait.

use crate::common::*;

use std::sync::Arc;
use vmalloc::{AllocError, FreeError, PlatformFault, Space, SpaceOptions};
use vmalloc::{Platform, Request};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

const SPAN: usize = 1 << 30;

/// Without a thread that drains: the counts are exact.
fn space(space_options: SpaceOptions) -> Arc<Space<Linux>> {
    open(LinuxOptions::new().exactly(SPAN).drain_thread(false), space_options).unwrap()
}

#[test]
fn a_cached_area_comes_back_mapped_and_zeroed_only_on_request() {
    let space = space(SpaceOptions::default());
    let mut first = space.buffer(8192).unwrap();
    first.fill(7);
    let addr = first.as_ptr();
    drop(first);
    assert_eq!(space.stats().cached_areas, 1);
    let second = space.buffer(8192).unwrap();
    assert_eq!(second.as_ptr(), addr, "the area freed last is the first to be reused");
    assert!(second.iter().all(|&byte| byte == 7));
    drop(second);
    let third = space.zeroed_buffer(8192).unwrap();
    assert_eq!(third.as_ptr(), addr);
    assert!(third.iter().all(|&byte| byte == 0));
    drop(third);
    assert_whole(&space);
}

#[test]
fn frames_are_told_where_the_machine_tells_them() {
    let space = space(SpaceOptions::default());
    let mut buffer = space.zeroed_buffer(2 * 4096).unwrap();
    buffer[0] = 1;
    let addr = buffer.as_ptr().addr();
    // Only root is told; the page behind is not there yet, the guard page never.
    match space.physical_page(addr) {
        Some(frame) => assert_ne!(frame, 0),
        None => not_run("frames_are_told_where_the_machine_tells_them", "the kernel tells no frames"),
    }
    assert_eq!(space.physical_page(addr + 4096), None);
    assert_eq!(space.physical_page(addr + 2 * 4096), None);
    assert_eq!(space.physical_page(0), None);
}

/// Mappings run out for real: a typed error that names the limit, nothing lost, and all is well
/// afterwards.
#[test]
fn running_out_of_mappings_loses_nothing() {
    in_own_process(|| {
        if map_limit().is_none() {
            return;
        }
        let options = LinuxOptions::new().exactly(SPAN).guard_means(GuardMeans::Mprotect);
        let space = open(options, SpaceOptions::default().unmap_on_free()).unwrap();
        let mut areas = Vec::new();
        let refused = loop {
            match space.raw().alloc(&Request::new(4096)) {
                Ok(addr) => areas.push(addr),
                Err(error) => break error,
            }
        };
        let AllocError::Unbacked(error) = refused else { panic!("{refused}") };
        assert_eq!(error.cause.fault, PlatformFault::MapLimit);
        let span = space.platform().geometry().span.times(4096);
        assert_eq!((error.size, error.align, error.within), (8192, 4096, span));
        let stats = space.stats();
        assert_eq!(error.largest, stats.bytes(stats.largest_free_pages));
        assert_eq!(space.stats().busy_areas, areas.len() as u64);
        space.verify().unwrap();
        for addr in areas {
            free(&space, addr);
        }
        assert_whole(&space);
        assert!(space.raw().alloc(&Request::new(4096)).is_ok());
    });
}

/// Memory runs out for real (`RLIMIT_DATA`): what is cached is given up first, then the error is
/// typed.
#[test]
fn running_out_of_memory_empties_what_is_cached_and_loses_nothing() {
    in_own_process(|| {
        let options = LinuxOptions::new().exactly(SPAN).guard_means(GuardMeans::Mprotect);
        let space = open(options, SpaceOptions::default()).unwrap();
        let kept = space.raw().alloc(&Request::new(4096)).unwrap();
        free(&space, kept);
        assert_eq!(space.stats().cached_areas, 1);
        let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
        let refused = space.raw().alloc(&Request::new(512 << 20)).unwrap_err();
        let AllocError::Unbacked(error) = refused else { panic!("{refused}") };
        assert_eq!(error.cause.fault, PlatformFault::OutOfMemory);
        assert_eq!((error.size, error.largest), (((512 << 8) + 1) << 12, SPAN as u64));
        assert!(refused.to_string().ends_with(": mprotect failed: out of memory (code 12)"), "{refused}");
        assert_eq!(space.stats().cached_areas, 0, "pressure empties what is cached");
        let small = space.raw().alloc(&Request::new(1 << 20)).unwrap();
        free(&space, small);
        assert_whole(&space);
    });
}

fn free_atomic(space: &Space<Linux>, addr: usize) -> Result<(), FreeError> {
    // SAFETY: the tests own what they free.
    unsafe { space.raw().free_atomic(addr) }
}

#[test]
fn freeing_without_waiting_works_under_all_locks() {
    for space_options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = space(space_options);
        // Far enough from the plain ones that no leaf holds both.
        let noted = space.raw().alloc(&Request::new(5000).tag("noted")).unwrap();
        let hole = space.raw().alloc(&Request::new(2 << 20)).unwrap();
        let plain: Vec<usize> = (0..100).map(|_| space.raw().alloc(&Request::new(4096)).unwrap()).collect();
        space.quiesce();
        let freed: Vec<_> = plain.iter().map(|&addr| free_atomic(&space, addr)).collect();
        let contended = free_atomic(&space, noted);
        // SAFETY: this thread has called `quiesce` just now.
        unsafe { space.resume() };
        assert!(freed.iter().all(Result::is_ok), "{freed:?}");
        assert_eq!(contended, Err(FreeError::Contended { addr: noted }));
        assert_eq!(free_atomic(&space, plain[3]), Err(FreeError::AlreadyFreed { addr: plain[3] }));
        assert_eq!(space.stats().lazy_areas, 100);
        space.verify().unwrap();
        [noted, hole].into_iter().for_each(|addr| free(&space, addr));
        assert_whole(&space);
    }
}
