//! Tables below the figures.

use super::data::DesignData;
use super::units;
use std::fmt::Write;
use vmalloc_lab::picture::escape::xml;
use vmalloc_lab::times::{QUANTILES, Times};

/// A table whose first column names its rows, folded away.
pub(super) fn folded(heads: &[String], rows: &[Vec<String>]) -> String {
    format!("<details><summary>The numbers</summary>{}</details>", table(heads, rows))
}

/// A table whose first column names its rows.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"table\"><table><thead><tr>");
    // Writing to a string can't fail, here and below.
    heads.iter().for_each(|head| {
        let _ = write!(html, "<th scope=\"col\">{}</th>", xml(head));
    });
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let open = if index == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(html, "<{open}>{}</{}>", xml(cell), &open[..2]);
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

fn heads(first: &str, rest: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest).collect()
}

/// Allocation + free at each number of live areas.
pub(super) fn live(designs: &[DesignData]) -> String {
    let all = designs.iter().flat_map(|design| &design.live.points).map(|point| point.live);
    let live = sorted(all);
    let rows = designs.iter().map(|design| {
        let cell = |live: &u64| {
            let point = design.live.points.iter().find(|point| point.live == *live);
            point.map_or_else(
                || "\u{2013}".into(),
                |point| format!("{} + {}", units::time(point.alloc_ns), units::time(point.free_ns)),
            )
        };
        std::iter::once(design.name.to_owned()).chain(live.iter().map(cell)).collect()
    });
    folded(
        &heads("live areas (alloc + free)", live.iter().map(|live| units::whole(*live))),
        &rows.collect::<Vec<_>>(),
    )
}

/// Pairs a second at each number of threads.
pub(super) fn threads(designs: &[DesignData]) -> String {
    let threads = sorted(designs.iter().flat_map(|design| &design.threads).map(|point| point.threads));
    let rows = designs.iter().map(|design| {
        let cell = |threads: &usize| {
            let point = design.threads.iter().find(|point| point.threads == *threads);
            point.map_or_else(|| "\u{2013}".into(), |point| units::many(point.pairs_per_second))
        };
        std::iter::once(design.name.to_owned()).chain(threads.iter().map(cell)).collect()
    });
    folded(&heads("threads (pairs/s)", threads.iter().map(usize::to_string)), &rows.collect::<Vec<_>>())
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Quantiles of single calls.
pub(super) fn latency(designs: &[DesignData]) -> String {
    let quantiles = QUANTILES.iter().map(|(name, _)| (*name).to_owned());
    let heads = heads("call", ["calls".to_owned()].into_iter().chain(quantiles).chain(["max".to_owned()]));
    let row = |name: String, histogram: &Times| {
        let mut row = vec![name, units::whole(histogram.count())];
        row.extend(QUANTILES.map(|(_, part)| units::time(histogram.quantile(part) as f64)));
        row.push(units::time(histogram.max() as f64));
        row
    };
    let both = |design: &DesignData| {
        let name = |call| format!("{}, {call}", design.name);
        [row(name("alloc"), &design.latency.alloc), row(name("free"), &design.latency.free)]
    };
    table(&heads, &designs.iter().flat_map(both).collect::<Vec<_>>())
}

/// One number of the samples: the first, quarters, and the last.
pub(super) fn samples(designs: &[DesignData], values: impl Fn(&DesignData) -> Vec<(f64, String)>) -> String {
    const COLUMNS: usize = 4;
    let first = designs.first().map(&values).unwrap_or_default();
    let picks: Vec<_> = (0..=COLUMNS).map(|part| first.len().saturating_sub(1) * part / COLUMNS).collect();
    let at = picks.iter().filter_map(|&pick| first.get(pick)).map(|(x, _)| units::whole(*x as u64));
    let rows = designs.iter().map(|design| {
        let values = values(design);
        let cells =
            picks.iter().map(|&pick| values.get(pick).map_or_else(String::new, |value| value.1.clone()));
        std::iter::once(design.name.to_owned()).chain(cells).collect()
    });
    folded(&heads("areas replaced", at), &rows.collect::<Vec<_>>())
}
