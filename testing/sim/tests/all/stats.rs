//! What operators see: counts as a table, by name, and as JSON.

use crate::PAGE;
use vmalloc::{Area, AreaInfo, NodeStats, PageRange, Request, Space, SpaceOptions, Stats};
use vmalloc_sim::{Options, Sim};

fn space(options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::new(1 << 12, (1 << 12) + (1 << 14)).expect("a span");
    Space::new(Options::new(span).cpus(1).build(), options).expect("a space")
}

fn area(space: &Space<Sim>, bytes: usize) -> Area<&Space<Sim>> {
    Area::new(space, &Request::new(bytes).tag("rows")).expect("an area")
}

#[test]
fn counts_have_the_names_of_their_fields() {
    let space = space(SpaceOptions::default());
    drop(area(&space, 100 * PAGE));
    let _area = area(&space, 1);
    let stats = space.stats();
    let fields = format!("{stats:?}");
    let fields = fields.trim_start_matches("Stats { ").trim_end_matches(" }");
    let listed: Vec<_> = stats.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    assert_eq!(listed.join(", "), fields);
    for (name, _) in stats.iter() {
        let units = ["bytes", "pages", "areas", "parts", "ranges", "frees", "purges"];
        assert!(name.split('_').any(|word| units.contains(&word)), "{name} has no unit");
    }
}

#[test]
fn the_table_has_sizes_in_bytes() {
    let space = space(SpaceOptions::default());
    let _area = area(&space, (1 << 20) - PAGE);
    let stats = space.stats();
    assert_eq!(stats.bytes(stats.busy_pages), 1 << 20);
    let table = stats.to_string();
    for line in ["span                 64 MiB\n", "busy                 1 MiB\n", "busy_areas           1\n"]
    {
        assert!(table.contains(line), "{table}");
    }
}

#[test]
fn the_most_pages_in_use_are_told_when_they_are_free_again() {
    let space = space(SpaceOptions::default().unmap_on_free());
    let many: Vec<_> = (0..4).map(|_| area(&space, 999 * PAGE)).collect();
    drop(many);
    space.purge().expect("a purge");
    let stats = space.stats();
    assert_eq!((stats.peak_pages, stats.placed_areas, stats.busy_areas), (4_000, 4, 0));
}

/// With memory, without, and too large for a node.
#[test]
fn an_allocation_is_placed_or_reuses_an_area() {
    let cases = [(1 << 24, 1), (1 << 24, 400), (0, 1)];
    for (cache_bytes, pages) in cases {
        let space = space(SpaceOptions::default().cache_bytes(cache_bytes));
        for _ in 0..100 {
            drop(area(&space, pages * PAGE));
            if cache_bytes == 0 {
                space.flush().expect("a purge");
            }
        }
        let stats = space.stats();
        assert_eq!(stats.allocations(), 100, "{stats}");
        assert_eq!((stats.placed_areas, stats.reused_areas), (1, stats.allocations() - 1), "{stats}");
    }
}

#[test]
fn counts_and_areas_go_through_json() {
    let space = space(SpaceOptions::default());
    let area = area(&space, 5_000);
    let (stats, info) = (space.stats(), space.find(area.addr()).expect("the area"));
    let node = space.node_stats().next().expect("a node");
    let json = serde_json::to_string(&(stats, node, info)).expect("it can be written");
    let read: (Stats, NodeStats, AreaInfo) = serde_json::from_str(&json).expect("it can be read");
    assert_eq!(read, (stats, node, info));
    // What an older version wrote has fewer counts.
    assert_eq!(serde_json::from_str::<Stats>("{}").expect("it can be read"), Stats::default());
}

#[test]
fn an_area_is_shown_with_its_address_in_hexadecimal() {
    let space = space(SpaceOptions::default());
    let area = area(&space, 1);
    let shown = format!("{:?}", space.find(area.addr()));
    assert!(shown.starts_with(&format!("Some(AreaInfo {{ addr: {:#x}, ", area.addr())), "{shown}");
}
