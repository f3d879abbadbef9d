//! Dependencies point one way: the map on nothing of ours, the core on the map, sub-spaces, short
//! mappings, slots and per-CPU areas on the core, platforms on the core and sub-spaces, what stands
//! on these, test tools on everything and nothing on them.

use crate::root;
use std::collections::BTreeMap;
use std::fs;
use toml::Table;

/// Crates that test, measure or show: never part of what is shipped as a library.
const TOOLS: [&str; 14] = [
    "vmalloc-model",
    "vmalloc-programs",
    "vmalloc-conformance",
    "vmalloc-fuzz",
    "vmalloc-harness",
    "vmalloc-kit",
    "vmalloc-lab",
    "vmalloc-mutants",
    "vmalloc-schedules",
    "vmalloc-worlds",
    "vmalloc-cli",
    "vmalloc-bench",
    "xtask",
    "xtask-source",
];

/// Crates that stand on the platform for Linux.
const ON_LINUX: [&str; 3] = ["vmalloc-inspect", "vmalloc-stacks", "vmalloc-malloc"];

/// The library to preload, which stands on these.
const PRELOAD: &str = "vmalloc-preload";

/// Interfaces for other languages: they stand on all products for Linux, and no product on them.
const INTERFACES: [&str; 1] = ["vmalloc-c"];

/// Returns our crates, and for each which of them it depends on outside of its tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let root = root();
    let folders = ["crates", "testing", "lab"].map(|name| root.join(name));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of the checkout"));
    let manifests =
        entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("Cargo.toml")).ok());
    let parsed: Vec<Table> = manifests.map(|text| text.parse().expect("a manifest is TOML")).collect();
    let all: BTreeMap<_, _> = parsed.iter().map(|manifest| (name(manifest), linked(manifest))).collect();
    let ours = |links: &Vec<String>| links.iter().filter(|link| all.contains_key(*link)).cloned().collect();
    all.iter().map(|(name, links)| (name.clone(), ours(links))).collect()
}

fn name(manifest: &Table) -> String {
    manifest["package"]["name"].as_str().expect("a name is a string").to_owned()
}

/// Names in `dependencies` and `build-dependencies`, those of single targets included.
fn linked(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(|target| target.as_table());
    let per_target =
        targets.into_iter().flat_map(|targets| targets.values()).filter_map(|table| table.as_table());
    let tables = [manifest].into_iter().chain(per_target);
    let sections = tables.flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")]);
    let sections = sections.flatten().filter_map(|section| section.as_table());
    sections.flat_map(|section| section.iter().map(package)).collect()
}

/// Returns the package behind an entry, which may be renamed.
fn package((key, value): (&String, &toml::Value)) -> String {
    value.get("package").and_then(|package| package.as_str()).unwrap_or(key).to_owned()
}

#[test]
fn the_map_depends_on_nothing_of_ours_and_the_core_on_the_map() {
    assert_eq!(dependencies()["vmalloc-map"], [""; 0]);
    assert_eq!(dependencies()["vmalloc"], ["vmalloc-map"]);
}

#[test]
fn sub_spaces_depend_on_the_core_alone() {
    assert_eq!(dependencies()["vmalloc-subspaces"], ["vmalloc"]);
}

#[test]
fn short_mappings_and_slots_depend_on_the_core_alone() {
    assert_eq!(dependencies()["vmalloc-short"], ["vmalloc"]);
    assert_eq!(dependencies()["vmalloc-slots"], ["vmalloc"]);
}

#[test]
fn per_cpu_areas_depend_on_the_core_alone() {
    assert_eq!(dependencies()["vmalloc-percpu"], ["vmalloc"]);
}

#[test]
fn a_platform_depends_on_the_core_and_sub_spaces_alone() {
    for (name, links) in dependencies() {
        let above = [&TOOLS[..], &ON_LINUX[..], &INTERFACES[..], &[PRELOAD]];
        let is_above = above.concat().contains(&name.as_str());
        if name.starts_with("vmalloc-") && name != "vmalloc-map" && !is_above {
            let is_below = |link: &String| ["vmalloc", "vmalloc-subspaces"].contains(&link.as_str());
            assert!(links.iter().all(is_below), "{name} depends on {links:?}");
        }
    }
}

#[test]
fn what_stands_on_linux_depends_on_it_and_the_core_alone() {
    for name in ON_LINUX {
        assert_eq!(dependencies()[name], ["vmalloc", "vmalloc-linux"], "{name}");
    }
}

#[test]
fn the_library_to_preload_depends_on_the_heap_and_linux_alone() {
    assert_eq!(dependencies()[PRELOAD], ["vmalloc-malloc", "vmalloc-linux"]);
}

#[test]
fn an_interface_stands_on_the_products_for_linux() {
    let products = [
        "vmalloc-linux",
        "vmalloc-percpu",
        "vmalloc-short",
        "vmalloc-slots",
        "vmalloc-stacks",
        "vmalloc-subspaces",
    ];
    assert_eq!(dependencies()["vmalloc-c"], products);
    for (name, links) in dependencies() {
        let uses = links.iter().any(|link| INTERFACES.contains(&link.as_str()));
        assert!(!uses || TOOLS.contains(&name.as_str()), "{name} depends on {links:?}");
    }
}

#[test]
fn only_tools_depend_on_tools() {
    for (name, links) in dependencies() {
        let uses_tools = links.iter().any(|link| TOOLS.contains(&link.as_str()));
        assert!(!uses_tools || TOOLS.contains(&name.as_str()), "{name} depends on {links:?}");
    }
}

#[test]
fn the_test_sees_dependencies() {
    assert_eq!(dependencies()["vmalloc-model"], ["vmalloc-harness", "vmalloc-map"]);
}
