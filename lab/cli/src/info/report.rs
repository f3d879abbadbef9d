//! The session as tables, or as JSON.

use crate::machine::{Facts, Machine, Strategy};
use serde::Serialize;
use std::fmt::Write;
use vmalloc::{AreaInfo, NodeStats, Stats};
use vmalloc_lab::units::human_bytes;

/// The state of the space during the session.
#[derive(Serialize)]
pub(super) struct Report {
    strategy: Strategy,
    areas: Vec<AreaInfo>,
    stats: Stats,
    nodes: Vec<NodeStats>,
    machine: Facts,
}

impl Report {
    /// Asks the space for its state.
    pub(super) fn new(machine: &Machine, strategy: Strategy) -> Self {
        Self {
            strategy,
            areas: machine.space.areas().collect(),
            stats: machine.counts(),
            nodes: machine.node_counts(),
            machine: machine.facts(),
        }
    }

    /// For people: the areas, the counts, the nodes and the platform's choices.
    pub(super) fn text(&self, machine: &Machine) -> String {
        let areas = "Areas (range and size with guard page, tag, pages, kind):";
        let mut text = format!("{areas}\n{}", machine.space.vmallocinfo());
        text.push_str("\nStatistics:\n");
        self.stats.to_string().lines().for_each(|line| text.extend(["  ", line, "\n"]));
        table(&mut text, "Nodes", &self.nodes());
        table(&mut text, "Platform", &self.platform());
        text
    }

    /// The nodes in which something waits: a large machine has many, and most are empty.
    fn nodes(&self) -> Vec<(String, String)> {
        let pages = |pages: u64| human_bytes(pages.saturating_mul(self.machine.page_bytes as u64));
        let busy = self.nodes.iter().enumerate().filter(|(_, node)| **node != NodeStats::default());
        let line = |(id, node): (usize, &NodeStats)| {
            let NodeStats { lazy_areas, cached_areas, cached_pages, pooled_areas, pooled_pages, .. } = *node;
            let (cached, pooled) = (pages(cached_pages), pages(pooled_pages));
            let value = format!(
                "lazy {lazy_areas} areas, cached {cached} in {cached_areas}, pooled {pooled} in {pooled_areas}"
            );
            (format!("node {id}"), value)
        };
        let mut lines: Vec<_> = busy.map(line).collect();
        let empty = self.nodes.len() - lines.len();
        if empty > 0 {
            lines.push(("empty".into(), format!("{empty} of {}", self.nodes.len())));
        }
        lines
    }

    fn platform(&self) -> [(&'static str, String); 10] {
        let Facts { arch, cpus, kernel, page_bytes, guards, .. } = &self.machine;
        let facts = &self.machine;
        let bytes = |bytes: usize| human_bytes(bytes as u64);
        [
            ("machine", format!("{arch}, {cpus} CPUs")),
            ("kernel", kernel.clone()),
            ("page", bytes(*page_bytes)),
            ("reserved", bytes(facts.reserved_bytes)),
            ("frames", bytes(facts.frame_bytes)),
            ("guards", guards.clone()),
            ("batches", if facts.batches { "yes" } else { "no" }.to_owned()),
            ("strategy", self.strategy.to_string()),
            ("cached at most", bytes(facts.cache_bytes)),
            ("lazy at most", bytes(page_bytes.saturating_mul(facts.lazy_max_pages as usize))),
        ]
    }
}

/// Appends a table of names and values.
fn table(text: &mut String, title: &str, rows: &[(impl AsRef<str>, String)]) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "\n{title}:");
    for (name, value) in rows {
        let _ = writeln!(text, "  {:<20} {value}", name.as_ref());
    }
}
