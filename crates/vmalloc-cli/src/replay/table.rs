//! Outcomes of designs side by side.

use crate::output::human_bytes;
use std::fmt;
use vmalloc_lab::design::PAGE_SHIFT;
use vmalloc_lab::replay::{Latency, Outcome, RoomOutcome};

/// All tables of one trace.
pub(super) fn write(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    totals(f, designs)?;
    latencies(f, designs)?;
    rooms(f, designs)
}

fn totals(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<18} {:>9} {:>10} {:>9} {:>8} {:>11} {:>10} {:>12}",
        "design", "time ms", "ns a call", "purges", "refused", "missed fits", "lazy peak", "waits"
    )?;
    for it in designs {
        let (ms, lazy) = (it.total_ns as f64 / 1e6, bytes(it.peak_lazy_pages));
        writeln!(
            f,
            "{:<18} {ms:>9.3} {:>10.1} {:>9} {:>8} {:>11} {lazy:>10} {:>12}",
            it.design, it.ns_per_call, it.purges, it.refused, it.missed_fits, it.waits.waited
        )?;
    }
    Ok(())
}

fn latencies(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<18} {:<5} {:>10} {:>8} {:>8} {:>8} {:>9} {:>10}",
        "ns, each call", "", "count", "p50", "p99", "p99.9", "p99.99", "max"
    )?;
    for it in designs {
        latency(f, it.design, "alloc", &it.alloc)?;
        latency(f, "", "free", &it.free)?;
    }
    match designs.first() {
        Some(it) => writeln!(f, "A look at the clock takes {} ns, which is in each", it.clock_ns),
        None => Ok(()),
    }
}

fn latency(f: &mut fmt::Formatter<'_>, design: &str, call: &str, it: &Latency) -> fmt::Result {
    let Latency { count, p50, p99, p99_9, p99_99, max, .. } = it;
    writeln!(f, "{design:<18} {call:<5} {count:>10} {p50:>8} {p99:>8} {p99_9:>8} {p99_99:>9} {max:>10}")
}

/// A table for each window; where threads ran nobody saw them.
fn rooms(f: &mut fmt::Formatter<'_>, designs: &[Outcome]) -> fmt::Result {
    let windows = designs.first().map_or(0, |it| it.rooms.len());
    for window in 0..windows {
        let rooms = designs.iter().filter_map(|it| Some((it.design, it.rooms.get(window)?)));
        let seen: Vec<_> = rooms.filter(|(_, room)| room.peak_span_pages.is_some()).collect();
        let Some((_, RoomOutcome { start, end, traced_span_pages, .. })) = seen.first() else { continue };
        let (from, to) = (start << PAGE_SHIFT, u128::from(*end) << PAGE_SHIFT);
        let size = bytes(end - start);
        writeln!(f, "\nWindow {from:#x}-{to:#x}, {size}")?;
        writeln!(
            f,
            "{:<18} {:>10} {:>10} {:>10} {:>14} {:>14}",
            "", "peak span", "peak busy", "areas", "largest free:", "at the end"
        )?;
        if let Some(pages) = traced_span_pages {
            writeln!(f, "{:<18} {:>10}", "(in the trace)", bytes(*pages))?;
        }
        seen.iter().try_for_each(|(design, it)| room(f, design, it))?;
    }
    Ok(())
}

fn room(f: &mut fmt::Formatter<'_>, design: &str, it: &RoomOutcome) -> fmt::Result {
    let told = |pages: Option<u64>| pages.map_or("-".into(), bytes);
    let mut free = it.samples.iter().map(|sample| sample.largest_free_pages);
    let (least, last) = (told(free.clone().min()), told(free.next_back()));
    let (span, busy, areas) =
        (told(it.peak_span_pages), told(it.peak_busy_pages), it.peak_busy_areas.unwrap_or(0));
    writeln!(f, "{design:<18} {span:>10} {busy:>10} {areas:>10} {least:>14} {last:>14}")
}

fn bytes(pages: u64) -> String {
    human_bytes(pages.saturating_mul(1 << PAGE_SHIFT))
}
