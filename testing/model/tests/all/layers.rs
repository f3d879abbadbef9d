//! Dependencies point one way: the map on nothing of ours, the core on the map, sub-spaces, short
//! mappings, slots and per-CPU areas on the core, platforms on the core and sub-spaces, what stands
//! on these, test tools on everything and nothing on them.

use crate::root;
use std::collections::BTreeMap;
use std::fs;
use toml::Table;

/// Crates that test, measure or show: never part of what is shipped as a library.
const TOOLS: [&str; 15] = [
    "vmalloc-model",
    "vmalloc-programs",
    "vmalloc-conformance",
    "vmalloc-fuzz",
    "vmalloc-harness",
    "vmalloc-kit",
    "vmalloc-lab",
    "vmalloc-machine",
    "vmalloc-mutants",
    "vmalloc-schedules",
    "vmalloc-worlds",
    "vmalloc-cli",
    "vmalloc-bench",
    "xtask",
    "xtask-source",
];

/// The interface for other languages: it stands on all products for Linux, and no product on it.
const INTERFACE: &str = "vmalloc-c";

/// Crates with all that they depend on. The others are tools and platforms.
const EXACT: [(&str, &[&str]); 12] = [
    ("vmalloc-map", &[]),
    ("vmalloc", &["vmalloc-map"]),
    ("vmalloc-subspaces", &["vmalloc"]),
    ("vmalloc-short", &["vmalloc"]),
    ("vmalloc-slots", &["vmalloc"]),
    ("vmalloc-percpu", &["vmalloc"]),
    ("vmalloc-inspect", &["vmalloc", "vmalloc-linux"]),
    ("vmalloc-stacks", &["vmalloc", "vmalloc-linux"]),
    ("vmalloc-malloc", &["vmalloc", "vmalloc-linux"]),
    ("vmalloc-preload", &["vmalloc-malloc", "vmalloc-linux"]),
    (
        INTERFACE,
        &[
            "vmalloc-linux",
            "vmalloc-percpu",
            "vmalloc-short",
            "vmalloc-slots",
            "vmalloc-stacks",
            "vmalloc-subspaces",
        ],
    ),
    // A tool: the test sees dependencies.
    ("vmalloc-model", &["vmalloc-harness", "vmalloc-map"]),
];

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
fn crates_depend_on_lower_ones_alone() {
    let all = dependencies();
    for (name, links) in EXACT {
        assert_eq!(all[name], links, "{name}");
    }
    for (name, links) in all.iter().filter(|(name, _)| !TOOLS.contains(&name.as_str())) {
        let is_above = |link: &String| link == INTERFACE || TOOLS.contains(&link.as_str());
        assert!(!links.iter().any(is_above), "{name} depends on {links:?}");
        let is_platform = name.starts_with("vmalloc-") && EXACT.iter().all(|(exact, _)| exact != name);
        let is_below = |link: &String| ["vmalloc", "vmalloc-subspaces"].contains(&link.as_str());
        assert!(!is_platform || links.iter().all(is_below), "{name} depends on {links:?}");
    }
}
