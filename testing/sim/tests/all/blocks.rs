//! Blocks of short mappings: how many are needed, and how mappings end.

use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_short::{ShortError, ShortMaps};
use vmalloc_sim::{Options, Sim};

fn space(slots: u64) -> Space<Sim> {
    space_of(1 << 22, slots)
}

fn space_without(pages: u64) -> Space<Sim> {
    let platform = Options::new(PageRange::from_len(0x1000, pages).unwrap()).cpus(2).build();
    Space::new(platform, SpaceOptions::default()).unwrap()
}

fn space_of(pages: u64, slots: u64) -> Space<Sim> {
    let space = space_without(pages);
    ShortMaps::with_block_slots(&space, slots).unwrap();
    space
}

fn short(space: &Space<Sim>) -> ShortMaps<&Space<Sim>> {
    ShortMaps::of(space).unwrap()
}

fn pair(space: &Space<Sim>, pages: u64) {
    let addr = short(space).reserve(pages).unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { short(space).unreserve(addr, pages) }.unwrap();
}

/// Blocks made and freed.
fn counts(space: &Space<Sim>) -> (u64, u64) {
    let stats = space.stats();
    (stats.tenant_areas_made, stats.tenant_areas_freed)
}

/// 1,000 times one mapping of 16 pages, then as many of 8 as leave room for one more.
fn scenario_1(space: &Space<Sim>, slots: u64) {
    for _ in 0..1000 {
        pair(space, 16);
        (0..(slots - 16) / 8 - 1).for_each(|_| pair(space, 8));
    }
}

/// 10,000 mappings of random sizes.
fn scenario_2(space: &Space<Sim>) {
    let mut x = 1u32;
    for _ in 0..10_000 {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        pair(space, u64::from(1 + x % 64));
    }
}

/// 1,000 times each order until one more fills a block, then one more of each.
fn scenario_3(space: &Space<Sim>, slots: u64) {
    for _ in 0..1000 {
        for order in 0..7 {
            (0..(slots >> order) - 1).for_each(|_| pair(space, 1 << order));
        }
        (0..7).for_each(|order| pair(space, 1 << order));
    }
}

fn all_counts(slots: u64) -> [(u64, u64); 3] {
    let scenarios: [fn(&Space<Sim>, u64); 3] = [scenario_1, |space, _| scenario_2(space), scenario_3];
    scenarios.map(|scenario| {
        let space = space(slots);
        scenario(&space, slots);
        let counts = counts(&space);
        finish(&space);
        counts
    })
}

/// Everything is returned: a purge leaves the space as it was.
fn finish(space: &Space<Sim>) {
    space.verify().unwrap();
    space.purge().unwrap();
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!((stats.tenant_areas, stats.busy_areas, stats.lazy_pages), (0, 0, 0));
    assert_eq!(stats.largest_free_pages, stats.span_pages);
    assert_eq!(space.platform().mapped_pages(), 0);
}

#[test]
fn recycling_needs_a_few_blocks_for_all_of_it() {
    for slots in [256, 1024] {
        for (made, _) in all_counts(slots) {
            // All lazy slots at a time, and one block of each order.
            assert!(made * slots <= 16_384 + 9 * slots, "{made} blocks of {slots} slots");
        }
    }
}

/// Maps one page for good and the rest of a block's worth of pages for a moment, again and again;
/// the address space that it takes, in pages.
fn one_long_lived_page_a_block(live: u64) -> u64 {
    let space = space_of(1 << 24, 1024);
    let mut held = Vec::new();
    for _ in 0..live {
        held.push(short(&space).reserve(1).unwrap());
        [1; 7].into_iter().chain([8; 127]).for_each(|pages| pair(&space, pages));
    }
    space.verify().unwrap();
    let pages = space.stats().tenant_areas * 1024;
    // SAFETY: nothing uses the addresses any more.
    held.iter().for_each(|&addr| unsafe { short(&space).unreserve(addr, 1) }.unwrap());
    finish(&space);
    pages
}

#[test]
fn a_long_lived_mapping_pins_itself_and_not_a_block() {
    let live = 60_000;
    let pages = one_long_lived_page_a_block(live);
    assert!(pages <= live * 11 / 10, "{pages} pages for {live} live ones");
}

#[test]
fn blocks_of_a_wrong_size_are_refused() {
    for slots in [1, 32, 100, 1000, 2048] {
        let platform = Options::new(PageRange::from_len(0x1000, 1 << 20).unwrap()).cpus(1).build();
        let space = Space::new(platform, SpaceOptions::default()).unwrap();
        let refused = ShortMaps::with_block_slots(&space, slots).map(|_| ());
        assert_eq!(refused.unwrap_err(), ShortError::BadBlock { slots });
    }
}

#[test]
fn a_small_span_has_small_blocks_and_uses_all_of_it() {
    let space = space_of(1 << 12, 0);
    let mut held = Vec::new();
    while let Ok(addr) = short(&space).reserve(64) {
        held.push(addr);
    }
    // 128 slots a block, aligned, in 4096 pages.
    assert_eq!(held.len(), 32 * 2);
    // SAFETY: nothing uses the addresses any more.
    held.iter().for_each(|&addr| unsafe { short(&space).unreserve(addr, 64) }.unwrap());
    finish(&space);
}

#[test]
fn metadata_of_short_maps_is_counted() {
    let space = space_without(1 << 12);
    let before = space.stats().metadata_bytes;
    ShortMaps::new(&space).unwrap();
    assert!(space.stats().metadata_bytes > before);
}
