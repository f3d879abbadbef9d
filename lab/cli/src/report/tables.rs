//! Tables below the figures.

use super::data::DesignData;
use super::units;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use vmalloc_lab::times::{QUANTILES, Times};

/// Writes a table whose first column names its rows.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> Markup {
    html! {
        div.table { table {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody {
                @for (name, cells) in rows.iter().filter_map(|row| row.split_first()) {
                    tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } }
                }
            }
        } }
    }
}

/// Writes a table with a row for each design and a column for each place at which one was measured,
/// folded away.
fn folded<X: Ord>(
    head: &str,
    write: impl Fn(&X) -> String,
    designs: &[DesignData],
    points: impl Fn(&DesignData) -> BTreeMap<X, String>,
) -> Markup {
    let points: Vec<_> = designs.iter().map(points).collect();
    let columns: BTreeSet<_> = points.iter().flat_map(BTreeMap::keys).collect();
    let heads: Vec<_> = once(head.to_owned()).chain(columns.iter().map(|x| write(x))).collect();
    let row = |(design, points): (&DesignData, &BTreeMap<X, String>)| {
        let cells = columns.iter().map(|&x| points.get(x).map_or("\u{2013}", String::as_str).to_owned());
        once(design.name.to_owned()).chain(cells).collect()
    };
    let rows: Vec<_> = designs.iter().zip(&points).map(row).collect();
    html! { details { summary { "The numbers" } (table(&heads, &rows)) } }
}

/// Writes the times of an allocation and of a free at each number of live areas.
pub(super) fn live(designs: &[DesignData]) -> Markup {
    folded(
        "live areas (alloc + free)",
        |&live| units::whole(live),
        designs,
        |design| {
            let told = |alloc, free| format!("{} + {}", units::time(alloc), units::time(free));
            design.live.points.iter().map(|point| (point.live, told(point.alloc_ns, point.free_ns))).collect()
        },
    )
}

/// Writes the pairs a second at each number of threads.
pub(super) fn threads(designs: &[DesignData]) -> Markup {
    folded("threads (pairs/s)", usize::to_string, designs, |design| {
        design.threads.iter().map(|point| (point.threads, units::many(point.pairs_per_second))).collect()
    })
}

/// Writes one number of the samples: the first, quarters, and the last.
pub(super) fn samples(designs: &[DesignData], values: impl Fn(&DesignData) -> Vec<(f64, String)>) -> Markup {
    const COLUMNS: usize = 4;
    folded(
        "areas replaced",
        |&at| units::whole(at),
        designs,
        |design| {
            let values = values(design);
            let picks = (0..=COLUMNS).map(|part| values.len().saturating_sub(1) * part / COLUMNS);
            picks.filter_map(|pick| values.get(pick)).map(|(at, value)| (*at as u64, value.clone())).collect()
        },
    )
}

/// Writes the quantiles of single calls.
pub(super) fn latency(designs: &[DesignData]) -> Markup {
    let heads = ["call", "calls"].into_iter().chain(QUANTILES.map(|(name, _)| name)).chain(["max"]);
    let row = |name: String, calls: &Times| {
        let times = QUANTILES.map(|(_, part)| calls.quantile(part)).into_iter().chain([calls.max()]);
        [name, units::whole(calls.count())]
            .into_iter()
            .chain(times.map(|time| units::time(time as f64)))
            .collect()
    };
    let both = |design: &DesignData| {
        let name = |call| format!("{}, {call}", design.name);
        [row(name("alloc"), &design.latency.alloc), row(name("free"), &design.latency.free)]
    };
    let heads: Vec<_> = heads.map(str::to_owned).collect();
    table(&heads, &designs.iter().flat_map(both).collect::<Vec<_>>())
}
