//! Outcomes of designs side by side.

use super::spans::percent;
use super::sparkline::{self, Pick};
use std::fmt;
use vmalloc_lab::design::PAGE_SHIFT;
use vmalloc_lab::replay::{Latency, Outcome, Sample, WindowOutcome};
use vmalloc_lab::table::{figure, table};
use vmalloc_lab::units::human_bytes;

/// All tables of one trace.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    totals(f, designs)?;
    latencies(f, designs)?;
    windows(f, designs)
}

fn totals(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    let head = [
        "design",
        "time ms",
        "ns a call",
        "pool hits",
        "purges",
        "refused",
        "missed fits",
        "lazy peak",
        "lock waits",
    ];
    let row = |it: &Outcome| {
        vec![
            it.design.to_owned(),
            format!("{:.3}", it.total_ns as f64 / 1e6),
            format!("{:.1}", it.ns_per_call),
            percent(it.hits),
            it.purges.to_string(),
            it.refused.to_string(),
            it.missed_fits.to_string(),
            bytes(it.peak_lazy_pages),
            it.waits.waited.to_string(),
        ]
    };
    writeln!(f, "\n{}", table("lr", &head, designs.iter().map(row).collect()))
}

fn latencies(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    let Some(first) = designs.first() else { return Ok(()) };
    let row = |design: &str, call: &str, it: &Latency| {
        let Latency { count, p50, p99, p99_9, p99_99, max, .. } = *it;
        let numbers = [count, p50, p99, p99_9, p99_99, max];
        [design.to_owned(), call.to_owned()].into_iter().chain(numbers.map(|it| it.to_string())).collect()
    };
    let both = |it: &Outcome| [row(it.design, "alloc", &it.alloc), row("", "free", &it.free)];
    let head = ["ns, each call", "", "count", "p50", "p99", "p99.9", "p99.99", "max"];
    writeln!(f, "\n{}", table("llr", &head, designs.iter().flat_map(both).collect()))?;
    writeln!(f, "A look at the clock takes {} ns, which is in each", first.clock_ns)
}

/// Writes two tables for each window.
fn windows(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    let windows = designs.first().map_or(0, |it| it.windows.len());
    for window in 0..windows {
        let windows = designs.iter().filter_map(|it| Some((it.design, it.windows.get(window)?)));
        let seen: Vec<_> = windows.collect();
        let Some((_, WindowOutcome { start, end, traced_span_pages, .. })) = seen.first() else { continue };
        let (from, to) = (start << PAGE_SHIFT, u128::from(*end) << PAGE_SHIFT);
        writeln!(f, "\nWindow {from:#x}-{to:#x}, {}", bytes(end - start))?;
        extremes(f, *traced_span_pages, &seen)?;
        over_time(f, &seen)?;
    }
    Ok(())
}

fn extremes(
    f: &mut fmt::Formatter<'_>,
    traced: Option<u64>,
    windows: &[(&str, &WindowOutcome)],
) -> fmt::Result {
    let head = ["", "peak span", "÷ traced", "peak busy", "most areas", "largest free: least", "at the end"];
    let traced = traced.map(|pages| {
        let cells = ["(in the trace)".to_owned(), bytes(pages)];
        cells.into_iter().chain(std::iter::repeat_n(String::new(), head.len() - 2)).collect()
    });
    let rows = traced.into_iter().chain(windows.iter().map(|(design, it)| extreme(design, it)));
    writeln!(f, "{}", table("lr", &head, rows.collect()))
}

fn extreme(design: &str, it: &WindowOutcome) -> Vec<String> {
    let told_free = |pages: Option<u64>| pages.map_or("-".into(), |pages| free_bytes(it, pages));
    let mut free = it.samples.iter().map(|sample| sample.largest_free_pages);
    vec![
        design.to_owned(),
        bytes(it.peak_span_pages),
        figure(it.span_ratio()),
        bytes(it.peak_busy_pages),
        it.peak_busy_areas.to_string(),
        told_free(free.clone().min()),
        told_free(free.next_back()),
    ]
}

/// Lazy pages and the largest free range, from the first call to the last.
fn over_time(f: &mut fmt::Formatter<'_>, windows: &[(&str, &WindowOutcome)]) -> fmt::Result {
    type Value = fn(&Sample) -> u64;
    let (lazy, free): (Value, Value) = (|it| it.lazy_pages, |it| it.largest_free_pages);
    let samples = || windows.iter().flat_map(|(_, window)| &window.samples);
    let most_lazy = samples().map(lazy).max().unwrap_or(0);
    let (least, most) = (samples().map(free).min().unwrap_or(0), samples().map(free).max().unwrap_or(0));
    let Some((_, first)) = windows.first() else { return Ok(()) };
    let line = |window: &WindowOutcome, value: Value, pick, bounds| {
        sparkline::draw(&window.samples.iter().map(value).collect::<Vec<_>>(), pick, bounds)
    };
    let row = |(design, window): &(&str, &WindowOutcome)| {
        let lines =
            [line(window, lazy, Pick::Most, 0..=most_lazy), line(window, free, Pick::Least, least..=most)];
        std::iter::once((*design).to_owned()).chain(lines).collect()
    };
    let head = [
        "over time",
        &format!("lazy, 0 to {}", bytes(most_lazy)),
        &format!("largest free range, {} to {}", free_bytes(first, least), free_bytes(first, most)),
    ];
    writeln!(f, "{}", table("l", &head, windows.iter().map(row).collect()))
}

/// A free range of a window: where little of that is missing, only what is missing tells one from
/// another.
fn free_bytes(window: &WindowOutcome, pages: u64) -> String {
    const LITTLE: u64 = 8;
    let window = window.end - window.start;
    match window - pages {
        0 => format!("all {}", bytes(pages)),
        missing if missing < window / LITTLE => format!("all but {}", bytes(missing)),
        _ => bytes(pages),
    }
}

fn bytes(pages: u64) -> String {
    human_bytes(pages.saturating_mul(1 << PAGE_SHIFT))
}
