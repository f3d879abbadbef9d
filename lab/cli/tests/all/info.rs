//! `vmalloc info`: its session, as text and as JSON.

use crate::common::{json, text};

const TAGS: [&str; 11] = [
    "frame_buffer",
    "ring_buffer",
    "stack",
    "symbol_table",
    "dense_table",
    "device_registers",
    "code",
    "page_list",
    "shared_buffer",
    "shown_again",
    "sparse_file",
];
/// Every kind of area that this machine can have: it has no device.
const KINDS: [&str; 6] = ["Exec", "Reserved", "Shared", "Tenant", "Vmalloc", "Vmap"];

#[test]
fn the_areas_the_counts_and_the_choices_are_printed() {
    let text = text("info");
    for tag in TAGS {
        assert_eq!(text.lines().filter(|line| line.contains(&format!(" {tag} pages="))).count(), 1, "{tag}");
    }
    assert!(!text.contains("scratch"), "what is freed is not listed");
    for word in [
        "Statistics:",
        "  pooled  ",
        "  metadata ",
        "  tenant_areas_made    1",
        "  frames ",
        "Nodes:",
        "Platform:",
        "  guards ",
        "  batches ",
        "  reserved ",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn json_has_the_same_areas_and_counts() {
    for (strategy, cached) in [("retain", 3), ("unmap", 0)] {
        let (report, code) = json(&format!("info --json --strategy {strategy}"));
        assert_eq!(code, Some(0));
        let areas = report["areas"].as_array().expect("areas");
        let cpus = report["machine"]["cpus"].as_u64().expect("a count") as usize;
        assert_eq!(areas.iter().filter(|area| area["tag"] == "percpu").count(), cpus);
        // Without a tag: a block.
        assert_eq!(areas.len(), TAGS.len() + cpus + 1);
        let mut kinds: Vec<_> = areas.iter().filter_map(|area| area["kind"].as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, KINDS);
        for tag in TAGS {
            let area = areas.iter().find(|area| area["tag"] == tag).expect(tag);
            let is_reserved = ["device_registers", "sparse_file"].contains(&tag);
            assert_eq!(area["kind"] == "Reserved", is_reserved, "{tag}");
            assert_eq!(area["guard"] == false, tag == "dense_table", "{tag}");
        }
        let stats = &report["stats"];
        assert_eq!(stats["busy_areas"], areas.len());
        assert_eq!((&stats["tenant_areas"], &stats["tenant_areas_made"]), (&1.into(), &1.into()));
        // Lazy areas are drained in the background, perhaps already; cached areas have not aged
        // yet.
        assert_eq!(stats["cached_areas"], cached);
        assert!(stats["lazy_areas"].as_u64() <= Some(3 - cached), "{stats}");
        assert!(report["machine"]["guards"].is_string() && report["machine"]["batches"].is_boolean());
    }
}

#[test]
fn nodes_are_listed_and_their_number_can_be_chosen() {
    for nodes in [1, 3, 128] {
        let (report, _) = json(&format!("info --json --nodes {nodes}"));
        assert_eq!(report["machine"]["nodes"], nodes);
        let lines = report["nodes"].as_array().expect("nodes");
        assert_eq!(lines.len(), nodes);
        for (name, large) in [("cached_areas", "large_areas"), ("cached_pages", "large_pages")] {
            let sum: u64 = lines.iter().filter_map(|node| node[name].as_u64()).sum();
            let large = report["stats"][large].as_u64().expect("a count");
            assert_eq!(report["stats"][name], sum + large, "{name}");
        }
    }
    let text = text("info --nodes 64");
    assert!(text.lines().any(|line| line.starts_with("  node ") && line.contains(" cached ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  empty ") && line.ends_with(" of 64")), "{text}");
}
