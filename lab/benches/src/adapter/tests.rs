//! Every adapter is held to legality: aligned, inside the space, disjoint; first fits agree on
//! every place.

use super::{
    BTreeAreas, BTreeBest, BTreeFirst, Blocks, Caller, Drained, FreeListPages, Map, Offset, OurSpace,
    RangeAlloc, VmAllocator,
};
use crate::ranges::{BASE_PAGE, Plan, Ranges, SPACE_PAGES};
use crate::workload::Shape;
use vmalloc_kit::null::FirstCpu;
use vmalloc_kit::rng::Rng;
use vmalloc_linux::FutexLock;

const AREAS: usize = 200;

/// Fills and churns a small live set; the starts of all allocations, in order.
fn drive<R: Ranges>() -> Vec<u64> {
    let shape = Shape { min_pages: 1, max_pages: 20, max_order: if R::ALIGNS { 5 } else { 0 } };
    let (mut rng, mut starts) = (Rng::new(3), Vec::new());
    let mut live: Vec<(R::Handle, u64, u64)> = Vec::new();
    let mut ranges = R::build(&Plan { areas: AREAS, guard: false });
    for iteration in 0..2000 {
        let step = shape.draw(&mut rng, AREAS);
        if iteration >= AREAS {
            let (handle, ..) = live.swap_remove(step.slot as usize);
            ranges.free(handle);
        }
        let handle = ranges.allocate(u64::from(step.pages), 1 << step.order);
        let start = R::start(handle);
        assert_eq!(start % (1 << step.order), 0, "{}: misaligned", R::NAME);
        live.push((handle, start, start + u64::from(step.pages)));
        starts.push(start);
        check_disjoint::<R>(live.iter().map(|&(_, start, end)| (start, end)));
    }
    check_find(&ranges, &live);
    starts
}

fn check_disjoint<R: Ranges>(areas: impl Iterator<Item = (u64, u64)>) {
    let mut sorted: Vec<_> = areas.collect();
    sorted.sort_unstable();
    let ends_before = |pair: &[(u64, u64)]| pair[0].1 <= pair[1].0;
    assert!(sorted.windows(2).all(ends_before), "{}: areas overlap", R::NAME);
    assert!(sorted[0].0 >= BASE_PAGE && sorted[sorted.len() - 1].1 <= BASE_PAGE + SPACE_PAGES);
}

fn check_find<R: Ranges>(ranges: &R, live: &[(R::Handle, u64, u64)]) {
    for &(_, start, end) in live.iter().filter(|_| R::FINDS) {
        assert_eq!(ranges.find(start), Some(start));
        assert_eq!(ranges.find(end - 1), Some(start));
    }
}

#[test]
fn peers_hand_out_disjoint_areas() {
    drive::<Offset>();
    drive::<RangeAlloc>();
    drive::<BTreeBest>();
    drive::<BTreeAreas>();
    // Its "first match" is the first that its walk of the tree meets, not always the lowest.
    drive::<VmAllocator>();
}

#[test]
fn our_space_hands_out_disjoint_areas() {
    drive::<OurSpace<true, Caller<FutexLock, FirstCpu>>>();
    drive::<OurSpace<false, Caller<FutexLock, FirstCpu>>>();
    drive::<OurSpace<true, Drained<FutexLock, FirstCpu>>>();
    drive::<OurSpace<false, Drained<FutexLock, FirstCpu>>>();
}

#[test]
fn our_blocks_hand_out_disjoint_slots() {
    drive::<Blocks<Caller<FutexLock, FirstCpu>>>();
}

#[test]
fn all_first_fits_agree() {
    let expected = drive::<BTreeFirst>();
    assert_eq!(drive::<Map>(), expected);
    assert_eq!(drive::<FreeListPages>(), expected);
}
