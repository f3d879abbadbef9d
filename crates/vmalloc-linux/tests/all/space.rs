//! The whole allocator on real memory: what is kept, what is refused, and what does not wait.

use crate::common::process::set_soft_limit;
use crate::common::*;
use rustix::process::Resource;

use std::sync::Arc;
use vmalloc::{AllocError, FreeError, PlatformFault, Space, SpaceOptions};
use vmalloc::{Request, Resize};
use vmalloc_harness::env::addresses;
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

const SPAN: usize = 1 << 30;

/// Without a thread that drains: the counts are exact.
fn space(space_options: SpaceOptions) -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(SPAN).drain_thread(false), space_options).unwrap()
}

/// Memory runs out for real (`RLIMIT_DATA`): what is cached is given up first, then the error is
/// typed.
#[test]
fn running_out_of_memory_empties_what_is_cached_and_loses_nothing() {
    in_own_process(|| {
        let options = LinuxOptions::new().max_bytes(SPAN).guard_means(GuardMeans::Mprotect);
        let space = open(options.drain_thread(false), SpaceOptions::default()).unwrap();
        let kept = space.raw().alloc(&Request::new(1)).unwrap();
        free(&space, kept);
        assert_eq!(space.stats().cached_areas, 1);
        set_soft_limit(Resource::Data, 64 << 20);
        let refused = space.raw().alloc(&Request::new(512 << 20)).unwrap_err();
        let AllocError::Unbacked(error) = refused else { panic!("{refused}") };
        assert_eq!(error.cause.fault, PlatformFault::OutOfMemory);
        assert_eq!((error.size, error.largest), ((512 << 20) + page_bytes() as u64, SPAN as u64));
        assert!(refused.to_string().ends_with(": mprotect failed: out of memory (code 12)"), "{refused}");
        assert_eq!(space.stats().cached_areas, 0, "pressure empties what is cached");
        // Or it makes room for an area that grows.
        let mib = (1 << 20) / page_bytes();
        let (small, kept) = (alloc(&space, mib), [(); 40].map(|()| alloc(&space, mib)));
        kept.iter().for_each(|addr| free(&space, *addr));
        assert!(space.stats().cached_areas > 30);
        // SAFETY: the test owns the area.
        let grown = unsafe { space.raw().realloc(small, &Resize::new(40 << 20)) }.unwrap();
        free(&space, grown);
        assert_whole(&space);
    });
}

fn free_atomic(space: &Space<Linux>, addr: usize) -> Result<(), FreeError> {
    // SAFETY: the tests own what they free.
    unsafe { space.raw().free_atomic(addr) }
}

/// Frames of shared memory that is freed without waiting go back with the next purge: else a supply
/// of four areas would end.
#[test]
fn shared_memory_freed_without_waiting_gives_its_frames_back() {
    let options = LinuxOptions::new().frame_bytes(16 << 20).drain_thread(false);
    let space = open(options, SpaceOptions::default()).unwrap();
    for round in 0..12 {
        let shared = space.raw().alloc_shared(&Request::new(4 << 20));
        let shared = shared.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(free_atomic(&space, shared), Ok(()));
        space.purge().unwrap();
    }
    assert_whole(&space);
}

#[test]
fn freeing_without_waiting_works_under_all_locks() {
    for space_options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = space(space_options);
        // Far enough from the plain ones that no leaf holds both.
        let noted = space.raw().alloc(&Request::new(5000).tag("noted")).unwrap();
        let hole = space.raw().alloc(&Request::new(2 << 20)).unwrap();
        let plain: Vec<usize> = (0..100).map(|_| space.raw().alloc(&Request::new(1)).unwrap()).collect();
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

/// Records of sizes and places that no area has come to take no memory.
#[test]
fn a_space_with_one_area_takes_few_pages() {
    in_own_process(|| {
        const SPACES: usize = addresses(200);
        let options = LinuxOptions::new().max_bytes(64 << 20).drain_thread(false);
        let open = || {
            let space = open(options, SpaceOptions::default()).unwrap();
            free(&space, alloc(&space, 1));
            space
        };
        let first = open();
        // Exact: the kernel's own count is kept a thread at a time, and some pages late.
        let anonymous = || {
            let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            told_bytes(&text.lines().map(str::to_owned).collect::<Vec<_>>(), "Anonymous:")
        };
        let before = anonymous();
        let spaces: Vec<_> = std::iter::repeat_with(open).take(SPACES).collect();
        let each = (anonymous() - before) / SPACES;
        // musl's heap rounds sizes up by as much as a quarter.
        let most = if cfg!(target_env = "musl") { 43 << 10 } else { 40 << 10 };
        assert!(each <= most.max(4 * page_bytes()), "{each} bytes for each");
        drop((first, spaces));
    });
}
