//! What a design makes of the addresses: the peak span of the main window over that in the trace,
//! with both kinds of purges side by side.

use super::report::InputReport;
use std::collections::BTreeMap;
use vmalloc_lab::replay::{Hits, Outcome, Purges, WindowOutcome};
use vmalloc_lab::table::{NONE, figure, table};

/// Tells of each trace that was replayed with both kinds of purges; nothing of others.
pub(super) fn told(inputs: &[InputReport]) -> String {
    let pairs = inputs.windows(2).filter_map(|pair| match pair {
        [own, traced] if own.purges == Purges::Own && traced.purges == Purges::Trace => Some((own, traced)),
        _ => None,
    });
    pairs.map(|(own, traced)| one(own, traced)).collect()
}

fn one(own: &InputReport, traced: &InputReport) -> String {
    let head =
        ["own purges:", "span", "pool hits", "alloc p99", "traced purges:", "span", "pool hits", "alloc p99"];
    let theirs: BTreeMap<_, _> = traced.designs.iter().map(|outcome| (outcome.design, outcome)).collect();
    let row = |outcome: &Outcome| {
        let [own, traced] = [Some(outcome), theirs.get(outcome.design).copied()].map(cells);
        let name = std::iter::once(outcome.design.to_owned());
        name.chain(own).chain(std::iter::once(String::new())).chain(traced).collect()
    };
    let rows = own.designs.iter().map(row).collect();
    let name = &own.read.name;
    format!("\n{name}: peak span of the main window over that in the trace\n{}\n", table("lr", &head, rows))
}

/// Span, pool hits, and the 99th percentile of allocations.
fn cells(outcome: Option<&Outcome>) -> [String; 3] {
    let Some(outcome) = outcome else { return [NONE; 3].map(str::to_owned) };
    let ratio = outcome.main_window().and_then(WindowOutcome::span_ratio);
    [figure(ratio), percent(outcome.hits), format!("{} ns", outcome.alloc.p99)]
}

/// Allocations from pools and caches, in hundredths.
pub(super) fn percent(hits: Option<Hits>) -> String {
    hits.map_or_else(|| NONE.to_owned(), |hits| format!("{:.1} %", hits.percent()))
}
