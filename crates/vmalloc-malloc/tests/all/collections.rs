//! Collections whose blocks cross the threshold, and the heap by address.

use std::alloc::Layout;
use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
use vmalloc_malloc::allocator_api2_04::alloc::Allocator;
use vmalloc_malloc::allocator_api2_04::vec::Vec;
use vmalloc_malloc::{DEFAULT_THRESHOLD, SpaceAllocator};

#[test]
fn collections_of_each_version_cross_the_threshold_both_ways() {
    let space = open(LinuxOptions::new().drain_thread(false), SpaceOptions::default()).unwrap();
    let both = || SpaceAllocator::beside_heap(&*space).tagged("list");
    macro_rules! check {
        ($version:ident) => {{
            let mut list = vmalloc_malloc::$version::vec::Vec::new_in(both());
            list.push(0_u64);
            assert!(!space.contains(list.as_ptr().addr()));
            list.extend(1..100_000);
            let area = space.find(list.as_ptr().addr()).expect("an area");
            assert_eq!(area.tag, Some("list".into()));
            assert!(list.iter().copied().eq(0..100_000));
            list.truncate(10);
            list.shrink_to_fit();
            assert!(!space.contains(list.as_ptr().addr()) && list.iter().copied().eq(0..10));
        }};
    }
    check!(allocator_api2_02);
    check!(allocator_api2_03);
    check!(allocator_api2_04);
    let mut map = hashbrown::HashMap::new_in(both());
    map.extend((0..10_000_u64).map(|key| (key, !key)));
    assert!((0..10_000).all(|key| map[&key] == !key));
    assert!(space.stats().busy_areas == 1, "the table is in the space");
    drop(map);
    assert_eq!(space.stats().busy_areas, 0, "nothing is lost");
}

#[test]
fn collections_of_each_version_live_in_a_space_alone() {
    let space = open(LinuxOptions::new().drain_thread(false), SpaceOptions::default()).unwrap();
    let alone = || SpaceAllocator::new(&*space).tagged("list");
    macro_rules! check {
        ($version:ident) => {{
            use vmalloc_malloc::$version::vec::Vec;
            let mut list = Vec::new_in(alone());
            list.push(0_u64);
            assert!(space.contains(list.as_ptr().addr()));
            list.extend(1..100_000_u64);
            list.shrink_to_fit();
            assert!(list.iter().copied().eq(0..100_000));
            let area = space.find(list.as_ptr().addr() + 799_999).expect("an area");
            assert_eq!(area.tag, Some("list".into()));
            list.truncate(3);
            list.shrink_to_fit();
            assert_eq!(list[..], [0, 1, 2]);
            list.clear();
            list.shrink_to_fit();
            let empty: Vec<u8, _> = Vec::new_in(alone());
            assert_eq!((list.capacity(), empty.capacity(), space.stats().busy_areas), (0, 0, 0));
        }};
    }
    check!(allocator_api2_02);
    check!(allocator_api2_03);
    check!(allocator_api2_04);
    let mut map = hashbrown::HashMap::new_in(alone());
    map.extend((0..10_000_u64).map(|key| (key, key * key)));
    assert!((0..10_000).all(|key| map[&key] == key * key));
    assert!(space.contains((&raw const map[&0]).addr()));
    drop(map);
    assert_eq!(space.stats().busy_areas, 0, "nothing is lost");
}

#[test]
fn zeros_and_empty_blocks_are_right_on_both_sides() {
    let space = open(LinuxOptions::new().drain_thread(false), SpaceOptions::default()).unwrap();
    let both = SpaceAllocator::beside_heap(&*space);
    for bytes in [0, 1, DEFAULT_THRESHOLD - 1, DEFAULT_THRESHOLD, 1 << 20] {
        let layout = Layout::from_size_align(bytes, 64).unwrap();
        let block = both.allocate_zeroed(layout).unwrap();
        // SAFETY: the block has as many bytes, all of them zeros.
        let content = unsafe { block.as_ref() };
        assert!(content[..bytes].iter().all(|&byte| byte == 0), "{bytes}");
        let larger = Layout::from_size_align(bytes + 40_000, 64).unwrap();
        // SAFETY: the block is this test's, and is freed once, with its last layout.
        unsafe {
            let grown = both.grow_zeroed(block.cast(), layout, larger).unwrap();
            assert!(grown.as_ref().iter().all(|&byte| byte == 0), "{bytes}");
            both.deallocate(grown.cast(), larger);
        }
    }
    assert_eq!(space.stats().busy_areas, 0);
}

#[test]
fn a_list_outgrows_a_full_space_and_keeps_its_content() {
    let options = LinuxOptions::new().drain_thread(false).max_bytes(16 << 20).frame_bytes(0);
    let space = open(options, SpaceOptions::default()).unwrap();
    let mut list = Vec::new_in(SpaceAllocator::beside_heap(&*space));
    list.extend(0..1 << 20_u64);
    assert!(space.contains(list.as_ptr().addr()), "8 MiB fit");
    list.extend(1 << 20..4 << 20);
    assert!(!space.contains(list.as_ptr().addr()), "32 MiB do not");
    assert!(list.iter().copied().eq(0..4 << 20));
    assert_eq!(space.stats().busy_areas, 0, "the block of the space was freed");
}

#[test]
fn a_block_that_outgrows_a_full_space_has_zeros_where_it_is_new() {
    let options = LinuxOptions::new().drain_thread(false).max_bytes(16 << 20).frame_bytes(0);
    let space = open(options, SpaceOptions::default()).unwrap();
    let both = SpaceAllocator::beside_heap(&*space);
    let [old, new] = [9 << 20, 30 << 20].map(|bytes| Layout::from_size_align(bytes, 64).unwrap());
    let block = both.allocate(old).unwrap();
    // SAFETY: the block is this test's, and is freed once, with its last layout.
    unsafe {
        block.cast::<u8>().write_bytes(7, old.size());
        let grown = both.grow_zeroed(block.cast(), old, new).unwrap();
        let content = &grown.as_ref()[..new.size()];
        assert!(!space.contains(content.as_ptr().addr()));
        assert!(content[..old.size()].iter().all(|&byte| byte == 7));
        assert!(content[old.size()..].iter().all(|&byte| byte == 0));
        both.deallocate(grown.cast(), new);
    }
    assert_eq!(space.stats().busy_areas, 0);
}
