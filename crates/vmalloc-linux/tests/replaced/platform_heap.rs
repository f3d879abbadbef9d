//! The platform never touches the heap, so that a global allocator may stand on it.

use crate::common::*;
use crate::heap::allocations;
use vmalloc::{PageRange, Platform};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux, LinuxOptions, ReserveError, SpaceOptions};

/// Everything a platform is asked for in its life. Returns the error where the kernel refuses it.
fn live(guards: GuardMeans, ranges: &mut [PageRange]) -> Option<ReserveError> {
    let options = LinuxOptions::new().max_bytes(page_bytes() << 18).guard_means(guards);
    let linux = match Linux::reserve(options, &SpaceOptions::default()) {
        Ok(linux) => linux,
        Err(error) => return Some(error),
    };
    for (index, range) in ranges.iter_mut().enumerate() {
        *range = pages(&linux, index as u64 * 8, 3);
        map(&linux, *range);
    }
    let huge = pages(&linux, 40 * CHUNK_PAGES + 3, 20 * CHUNK_PAGES);
    map(&linux, huge);
    linux.do_unmap(ranges).unwrap();
    linux.do_unmap(&[huge]).unwrap();
    linux.do_flush(ranges).unwrap();
    let outside = PageRange::from_len(linux.geometry().span.end(), 1).unwrap();
    assert!(linux.do_map(outside).is_err());
    std::hint::black_box((linux.entropy(), linux.cpu(), linux.geometry().cpus));
    None
}

#[test]
fn the_platform_never_touches_the_heap() {
    let mut ranges = vec![PageRange::from_len(0, 1).unwrap(); 1500];
    for guards in GuardMeans::all() {
        // A reservation that takes part in forks by itself, and its stash.
        let few = if guards == GuardMeans::Userfault { 4 } else { 0 };
        for batches in Batches::ALL {
            let (made, refused) = batches.opening(|| {
                let before = allocations();
                let refused = live(guards, &mut ranges);
                (allocations() - before, refused)
            });
            assert!(made <= few, "with {guards:?}, batches {batches:?}");
            if let Some(refused) = refused {
                lacks::<()>(&refused);
            }
        }
    }
}
