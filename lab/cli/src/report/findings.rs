//! Sentences about the numbers: titles of figures, and the printed text.

use super::data::{Data, DesignData};
use super::units::{digits, many, time, whole};
use std::fmt::Write;
use vmalloc_lab::units::counted;

/// How much more is not told as a difference: less than runs differ anyway.
const ALIKE: f64 = 1.15;

/// The least and the greatest of some values, with their designs.
struct Ends {
    least: (&'static str, f64),
    greatest: (&'static str, f64),
    count: usize,
}

impl Ends {
    fn of(values: impl Iterator<Item = (&'static str, f64)>) -> Option<Self> {
        let mut values: Vec<_> = values.filter(|(_, value)| value.is_finite()).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        Some(Self { least: *values.first()?, greatest: *values.last()?, count: values.len() })
    }

    /// Returns true if the difference is not worth a word.
    fn alike(&self) -> bool {
        self.count > 1 && self.greatest.1 <= self.least.1 * ALIKE
    }

    /// How many times the greatest is the least: `34 times`.
    fn times(&self) -> String {
        let times = self.greatest.1 / self.least.1;
        if times < 10.0 {
            format!("{times:.1} times")
        } else {
            format!("{} times", whole(times.round() as u64))
        }
    }
}

/// Time against live areas.
pub(super) fn live(designs: &[DesignData]) -> String {
    let most = designs.iter().filter_map(|design| design.live.points.last()).map(|point| point.live).max();
    let Some(most) = most else { return "No design took the smallest live set".into() };
    let at_most = designs.iter().filter_map(|design| {
        let point = design.live.points.last().filter(|point| point.live == most)?;
        Some((design.name, point.pair_ns()))
    });
    let Some(ends) = Ends::of(at_most) else { return String::new() };
    let (least, greatest) = (ends.least, ends.greatest);
    let mut text = match ends.count {
        1 => format!("With {} areas live, {} takes {} a pair", whole(most), least.0, time(least.1)),
        _ if ends.alike() => {
            format!("With {} areas live, a pair takes about {} in every design", whole(most), time(least.1))
        }
        _ => format!(
            "With {} areas live, {} takes {} a pair, {} {} as long",
            whole(most),
            least.0,
            time(least.1),
            greatest.0,
            ends.times()
        ),
    };
    let short = |design: &&DesignData| design.live.points.last().is_none_or(|point| point.live < most);
    let stopped: Vec<_> = designs.iter().filter(short).map(|design| design.name).collect();
    if !stopped.is_empty() {
        let _ = write!(text, "; {} did not get that far", stopped.join(", "));
    }
    text
}

/// Throughput against threads.
pub(super) fn threads(designs: &[DesignData]) -> String {
    let most = designs.iter().filter_map(|design| design.threads.last()).map(|point| point.threads).max();
    let Some(most) = most else { return "No threads could be started".into() };
    let at_most = designs.iter().filter_map(|design| {
        let point = design.threads.last().filter(|point| point.threads == most)?;
        Some((design.name, point.pairs_per_second))
    });
    let Some(ends) = Ends::of(at_most) else { return String::new() };
    let (best, worst) = (ends.greatest, ends.least);
    match ends.count {
        1 => format!("With {most} threads, {} makes {} pairs a second", best.0, many(best.1)),
        _ if ends.alike() => {
            format!("With {most} threads, all designs make about {} pairs a second", many(best.1))
        }
        _ => format!(
            "With {most} threads, {} makes {} pairs a second, {} {}",
            best.0,
            many(best.1),
            worst.0,
            many(worst.1)
        ),
    }
}

/// Single calls.
pub(super) fn latency(designs: &[DesignData]) -> String {
    let slow = |design: &DesignData| (design.name, design.latency.alloc.quantile(0.999) as f64);
    let Some(ends) = Ends::of(designs.iter().map(slow)) else { return String::new() };
    let (least, greatest) = (ends.least, ends.greatest);
    let text = "While a drain goes on, one allocation in 1,000 takes longer than";
    match ends.count {
        1 => format!("{text} {} in {}", time(least.1), least.0),
        _ if ends.alike() => format!("{text} about {} in all designs", time(least.1)),
        _ => format!("{text} {} in {}, and {} in {}", time(least.1), least.0, time(greatest.1), greatest.0),
    }
}

/// The mean of the second half, when a live set is in its steady state.
fn steady(values: &[f64]) -> f64 {
    let half = &values[values.len() / 2..];
    half.iter().sum::<f64>() / half.len().max(1) as f64
}

/// Returns the spans of a live set, in its own sizes.
pub(super) fn spans(design: &DesignData) -> Vec<f64> {
    let samples = design.fragmentation.samples.iter();
    samples.map(|sample| sample.span_pages as f64 / sample.live_pages.max(1) as f64).collect()
}

/// Fragmentation.
pub(super) fn span(designs: &[DesignData]) -> String {
    let Some(ends) = Ends::of(designs.iter().map(|design| (design.name, steady(&spans(design))))) else {
        return String::new();
    };
    let (least, greatest) = (ends.least, ends.greatest);
    match ends.count {
        1 => format!("A random live set spans {:.2} times its size in {}", least.1, least.0),
        _ if ends.alike() => {
            format!("A random live set spans about {:.1} times its size in all designs", least.1)
        }
        _ => format!(
            "A random live set spans {:.2} times its size in {}, {:.2} times in {}",
            least.1, least.0, greatest.1, greatest.0
        ),
    }
}

/// Writes the text that is printed at the end.
pub(super) fn text(data: &Data) -> String {
    let designs = &data.designs;
    let findings = [live(designs), threads(designs), latency(designs), span(designs)];
    let mut text = format!("{} measured in {:.0} s\n", counted(designs.len() as u64, "design"), data.seconds);
    for finding in findings {
        // Writing to a string can't fail.
        let _ = writeln!(text, "- {finding}");
    }
    let _ = writeln!(text, "- {}", noise(data));
    text
}

/// How far numbers can be trusted.
pub(super) fn noise(data: &Data) -> String {
    let noise = &data.noise;
    format!(
        "Noise of the machine: the same work was timed {} times; the slowest tenth took {} times as long as the \
         median or longer, the slowest {}; the load was {} on {}",
        noise.times,
        digits(1.0 + noise.slow_tenth),
        digits(1.0 + noise.slowest),
        data.machine.load,
        counted(data.machine.cpus as u64, "CPU")
    )
}
