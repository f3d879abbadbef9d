//! Each drop-in returns what its original returns, for random programs.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use range_allocators::*;

/// Plays one random program on both, with up to `live` ranges of up to `most` units.
fn same<Ours: Ranges, Theirs: Ranges>(seed: u64, live: usize, most: u64) {
    println!("{}, seed {seed}", Ours::NAME);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Little more than is live, so that some requests find no room.
    let bytes = live as u64 * (most / 2 + 1) * Ours::UNIT;
    let (mut ours, mut theirs) = (Ours::new(bytes), Theirs::new(bytes));
    let (mut ranges, mut refused) = (Vec::new(), 0);
    for _ in 0..20_000 {
        if random.next_u64() % 2 == 0 && ranges.len() < live {
            let size = (1 + random.next_u64() % most) * Ours::UNIT;
            let align = Ours::UNIT << [0, 0, 1, 4][random.next_u64() as usize % 4];
            let (start, expected) = (ours.alloc(size, align), theirs.alloc(size, align));
            assert_eq!(start, expected, "size {size:#x}, alignment {align:#x}, seed {seed}");
            refused += usize::from(start.is_none());
            ranges.extend(start.map(|start| (start, size)));
        } else if !ranges.is_empty() {
            let (start, size) = ranges.swap_remove(random.next_u64() as usize % ranges.len());
            ours.free(start, size);
            theirs.free(start, size);
        }
    }
    println!("{} live, {refused} refused", ranges.len());
    for (start, size) in ranges {
        ours.free(start, size);
        theirs.free(start, size);
    }
    assert_eq!(ours.alloc(bytes, Ours::UNIT), Some(0), "everything is free again");
}

fn programs<Ours: Ranges, Theirs: Ranges>() {
    for seed in 0..4 {
        // Few ranges stay in place in `free-list`; more make a map of it.
        same::<Ours, Theirs>(seed, 8, 40);
        same::<Ours, Theirs>(seed, 400, 40);
    }
}

#[test]
fn free_list_places_as_the_original() {
    programs::<FreeList, FreeListOriginal>();
}

#[test]
fn vm_allocator_places_as_the_original() {
    programs::<VmAllocator, VmAllocatorOriginal>();
}

#[test]
fn range_alloc_places_as_the_original() {
    programs::<RangeAlloc, RangeAllocOriginal>();
}

/// Programs of all requests to a set are in `sets`.
#[test]
fn ax_memory_set_places_as_the_original() {
    programs::<MemorySet, MemorySetOriginal>();
}

/// Thousands of holes of one size come and go: the drop-in's set of them is a vector, then a tree, and a vector again.
#[test]
fn range_alloc_places_as_the_original_among_many_holes_of_a_size() {
    const PAIRS: u64 = 3_000;
    for seed in 0..4 {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut ours, mut theirs) = (RangeAlloc::new(4 * PAIRS), RangeAllocOriginal::new(4 * PAIRS));
        let mut ranges: Vec<_> = (0..2 * PAIRS).map(|start| (start, 1)).collect();
        for &(start, size) in &ranges {
            assert_eq!((ours.alloc(size, 1), theirs.alloc(size, 1)), (Some(start), Some(start)));
        }
        // Every second one, in any order.
        let mut holes: Vec<_> = ranges.extract_if(.., |range| range.0 % 2 == 0).collect();
        while !holes.is_empty() {
            let (start, size) = holes.swap_remove(random.next_u64() as usize % holes.len());
            ours.free(start, size);
            theirs.free(start, size);
        }
        // The holes fill slowly, while others are made.
        for step in 0..8 * PAIRS {
            let (size, align) = (1 + random.next_u64() % 2, 1 + random.next_u64() % 2);
            let (our, their) = (ours.alloc(size, align), theirs.alloc(size, align));
            assert_eq!(our, their, "size {size}, alignment {align}, step {step}, seed {seed}");
            ranges.extend(our.map(|start| (start, size)));
            if random.next_u64() % 4 != 0 {
                let (start, size) = ranges.swap_remove(random.next_u64() as usize % ranges.len());
                ours.free(start, size);
                theirs.free(start, size);
            }
        }
    }
}

#[test]
fn drop_ins_move_between_threads_as_the_originals() {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<free_list::FreeList<16>>();
    send_and_sync::<ax_memory_set::MemorySet<NoBackend>>();
    send_and_sync::<vm_allocator::AddressAllocator>();
    send_and_sync::<range_alloc::RangeAllocator<u64>>();
}

/// Requests that span several areas, or parts of one, and lists of any length in place.
#[test]
fn free_list_frees_and_takes_parts_as_the_original() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut ours, mut theirs) =
            (free_list::FreeList::<4>::new(), free_list_original::FreeList::<4>::new());
        for _ in 0..5_000 {
            let start = random.next_u64() as usize % 200 * 4096;
            let end = start + (1 + random.next_u64() as usize % 12) * 4096;
            let (our, their) = (
                free_list::PageRange::new(start, end).unwrap(),
                free_list_original::PageRange::new(start, end).unwrap(),
            );
            let layout = (
                free_list::PageLayout::from_size(end - start).unwrap(),
                free_list_original::PageLayout::from_size(end - start).unwrap(),
            );
            match random.next_u64() % 3 {
                // SAFETY: these addresses name nothing.
                0 => assert_eq!(unsafe { ours.deallocate(our).is_ok() }, unsafe {
                    theirs.deallocate(their).is_ok()
                }),
                1 => assert_eq!(ours.allocate_at(our).is_ok(), theirs.allocate_at(their).is_ok()),
                _ => {
                    let hole = (
                        free_list::PageRange::new(40 * 4096, 60 * 4096).unwrap(),
                        free_list_original::PageRange::new(40 * 4096, 60 * 4096).unwrap(),
                    );
                    let (our, their) = (
                        ours.allocate_outside_of(layout.0, hole.0),
                        theirs.allocate_outside_of(layout.1, hole.1),
                    );
                    assert_eq!(our.ok().map(|it| it.start()), their.ok().map(|it| it.start()));
                }
            }
            assert!(
                ours.iter().map(|it| it.start()..it.end()).eq(theirs.iter().map(|it| it.start()..it.end()))
            );
            assert_eq!(ours.free_space(), theirs.free_space());
            assert_eq!(ours.to_string(), theirs.to_string());
        }
    }
}

/// The answer of an allocator: the bounds of a range, or the name of an error with its facts.
type Answer = Result<(u64, u64), String>;

macro_rules! answer {
    ($allocator:expr, $crate_name:ident, $policy:expr, $size:expr, $align:expr, $start:expr) => {{
        use $crate_name::AllocPolicy;
        let policy = match $policy {
            0 => AllocPolicy::FirstMatch,
            1 => AllocPolicy::LastMatch,
            _ => AllocPolicy::ExactMatch($start),
        };
        let range = $allocator.allocate($size, $align, policy);
        range.map(|range| (range.start(), range.end())).map_err(|error| format!("{error:?}"))
    }};
}

/// All three policies, on whole pages. An exact match is asked for at any page: in free ranges,
/// across the ends of areas, and at the areas themselves. Inside an area the original allocates
/// what is allocated; only the drop-in is asked there.
#[test]
fn vm_allocator_answers_all_policies_as_the_original() {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 400;
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut ours = vm_allocator::AddressAllocator::new(PAGES * PAGE, PAGES * PAGE).unwrap();
        let mut theirs = vm_allocator_original::AddressAllocator::new(PAGES * PAGE, PAGES * PAGE).unwrap();
        let (mut ranges, mut counts) = (Vec::<(u64, u64)>::new(), [[0; 2]; 3]);
        let (mut inside, mut again) = (0, 0);
        for _ in 0..10_000 {
            if random.next_u64() % 5 < 2 && !ranges.is_empty() {
                let (start, end) = ranges.swap_remove(random.next_u64() as usize % ranges.len());
                ours.free(&vm_allocator::RangeInclusive::new(start, end).unwrap()).unwrap();
                theirs.free(&vm_allocator_original::RangeInclusive::new(start, end).unwrap()).unwrap();
                continue;
            }
            let policy = random.next_u64() as usize % 3;
            let (mut size, mut align) = ((1 + random.next_u64() % 12) * PAGE, PAGE << (random.next_u64() % 3));
            let mut start = (PAGES + random.next_u64() % PAGES) * PAGE;
            if policy == 2 {
                align = PAGE;
                if random.next_u64() % 4 == 0 && !ranges.is_empty() {
                    let (first, last) = ranges[random.next_u64() as usize % ranges.len()];
                    (start, size) = (first, last - first + 1);
                }
            }
            let our: Answer = answer!(ours, vm_allocator, policy, size, align, start);
            let end = start + size - 1;
            let is_inside =
                |&&(first, last): &&(u64, u64)| first <= start && end <= last && (first, last) != (start, end);
            if policy == 2 && ranges.iter().find(is_inside).is_some() {
                assert_eq!(our, Err("ResourceNotAvailable".to_string()));
                inside += 1;
                continue;
            }
            let their: Answer = answer!(theirs, vm_allocator_original, policy, size, align, start);
            assert_eq!(our, their, "policy {policy}, size {size:#x}, alignment {align:#x}, start {start:#x}");
            again += usize::from(our.as_ref().is_err_and(|error| error.starts_with("InvalidStateTransition")));
            counts[policy][usize::from(our.is_ok())] += 1;
            ranges.extend(our);
        }
        println!("refused and allocated: {counts:?}; {inside} inside areas, {again} at areas");
        assert!(counts.as_flattened().iter().all(|count| *count > 0) && inside > 0 && again > 0);
    }
}

/// The differences that the README lists.
#[test]
fn vm_allocator_differs_from_the_original_at_single_bytes_and_inside_of_areas() {
    let mut ours = vm_allocator::AddressAllocator::new(0x1000, 0x1000).unwrap();
    let mut theirs = vm_allocator_original::AddressAllocator::new(0x1000, 0x1000).unwrap();
    let mut exact = |start, size| -> (Answer, Answer) {
        (answer!(ours, vm_allocator, 2, size, 1, start), answer!(theirs, vm_allocator_original, 2, size, 1, start))
    };
    let refused = || Err("ResourceNotAvailable".to_string());
    assert_eq!(exact(0x1000, 0x100), (Ok((0x1000, 0x10FF)), Ok((0x1000, 0x10FF))));
    assert_eq!(exact(0x1040, 0x10), (refused(), Ok((0x1040, 0x104F))));
    assert_eq!(exact(0x1FFF, 1), (Ok((0x1FFF, 0x1FFF)), refused()));

    let mut ours = vm_allocator::AddressAllocator::new(0x1000, 0x1000).unwrap();
    let mut theirs = vm_allocator_original::AddressAllocator::new(0x1000, 0x1000).unwrap();
    for (start, end) in [(0x1000, 0x1000), (0x1001, 0x1FFF)] {
        let size = end - start + 1;
        assert_eq!(answer!(ours, vm_allocator, 0, size, 1, 0), Ok((start, end)));
        assert_eq!(answer!(theirs, vm_allocator_original, 0, size, 1, 0), Ok((start, end)));
    }
    for (start, end) in [(0x1000, 0x1000), (0x1001, 0x1FFF)] {
        ours.free(&vm_allocator::RangeInclusive::new(start, end).unwrap()).unwrap();
        theirs.free(&vm_allocator_original::RangeInclusive::new(start, end).unwrap()).unwrap();
    }
    assert_eq!(answer!(ours, vm_allocator, 0, 0x1000, 1, 0), Ok((0x1000, 0x1FFF)));
    assert_eq!(answer!(theirs, vm_allocator_original, 0, 0x1000, 1, 0), refused(), "its byte stays apart");
}
