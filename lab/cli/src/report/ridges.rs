//! Histograms under each other, a row for each design: allocations upwards, frees downwards.
//!
//! Heights are logarithms of counts, so that a single slow call in a million is still seen; marks tell the quantiles.

use super::axis::Axis;
use super::data::DesignData;
use super::{series, units};
use std::fmt::Write;
use vmalloc_lab::picture::escape::{number, xml};
use vmalloc_lab::times::{QUANTILES, Times};

/// Bars of an octave.
const BARS: f64 = 4.0;
const HALF: f64 = 25.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

#[derive(Clone, Copy)]
struct Frame {
    class: &'static str,
    width: f64,
    left: f64,
    right: f64,
    ticks: usize,
    /// Of a row.
    height: f64,
    /// From the top of a row to its base.
    above: f64,
    /// Where the name of a row is, from its base.
    name: (f64, f64),
}

const WIDE: Frame = Frame {
    class: "wide",
    width: 960.0,
    left: 158.0,
    right: 16.0,
    ticks: 12,
    height: 66.0,
    above: 33.0,
    name: (2.0, 4.0),
};
/// Names over the rows.
const NARROW: Frame = Frame {
    class: "narrow",
    width: 380.0,
    left: 10.0,
    right: 16.0,
    ticks: 5,
    height: 86.0,
    above: 52.0,
    name: (10.0, -38.0),
};

/// Both drawings.
pub(super) fn svg(designs: &[DesignData]) -> String {
    let histograms = designs.iter().flat_map(|design| [&design.latency.alloc, &design.latency.free]);
    let ends = histograms
        .flat_map(|histogram| [histogram.steps().next().map_or(10, |step| step.0), histogram.max()]);
    let x = Axis::decades("time of a call", units::time, ends.map(|end| end as f64));
    [WIDE, NARROW].map(|frame| Drawing { designs, x: &x, frame }.svg()).concat()
}

struct Drawing<'a> {
    designs: &'a [DesignData],
    x: &'a Axis,
    frame: Frame,
}

/// Which way bars grow.
#[derive(Clone, Copy)]
enum Call {
    Alloc,
    Free,
}

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Free => "free",
        }
    }

    /// The way up is negative.
    const fn sign(self) -> f64 {
        match self {
            Self::Alloc => -1.0,
            Self::Free => 1.0,
        }
    }
}

impl Drawing<'_> {
    fn place(&self, nanoseconds: f64) -> f64 {
        self.frame.left + self.x.place(nanoseconds) * (self.frame.width - self.frame.left - self.frame.right)
    }

    fn svg(&self) -> String {
        let Frame { class, width, left, right, .. } = self.frame;
        let bottom = TOP + self.frame.height * self.designs.len() as f64;
        let mut svg = format!(
            "<svg class=\"plot ridges {class}\" viewBox=\"0 0 {width} {}\" role=\"img\" \
             aria-label=\"histograms of the time of calls\">\
             <text class=\"axis-title\" x=\"{left}\" y=\"14\">alloc \u{2191} &#160; free \u{2193}</text><g class=\"grid\">",
            bottom + BOTTOM
        );
        for value in self.x.sparse(self.frame.ticks) {
            // Writing to a string can't fail, here and below.
            let _ = write!(
                svg,
                "<path d=\"M{0} {TOP}V{1}\"/><text x=\"{0}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>",
                number(self.place(value)),
                bottom + 5.0,
                bottom + 19.0,
                xml(&(self.x.write)(value))
            );
        }
        let _ = write!(
            svg,
            "</g><text class=\"axis-title\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} (logarithmic; heights too)</text>",
            left + (width - left - right) / 2.0,
            bottom + BOTTOM - 6.0,
            self.x.title
        );
        for (row, design) in self.designs.iter().enumerate() {
            svg.push_str(&self.row(design, TOP + self.frame.height * row as f64 + self.frame.above));
        }
        svg.push_str("</svg>");
        svg
    }

    fn row(&self, design: &DesignData, middle: f64) -> String {
        let (left, right) = (self.frame.left, self.frame.width - self.frame.right);
        let (name_x, name_y) = (self.frame.name.0, middle + self.frame.name.1);
        let halves = [(Call::Alloc, &design.latency.alloc), (Call::Free, &design.latency.free)];
        let halves: String =
            halves.map(|(call, histogram)| self.half(design.name, call, histogram, middle)).concat();
        format!(
            "<g class=\"series {}\"><path class=\"base\" d=\"M{left} {middle}H{right}\"/>{halves}\
             <text class=\"name\" x=\"{name_x}\" y=\"{}\">{}</text></g>",
            series::class(design.place),
            number(name_y),
            xml(design.name)
        )
    }

    /// One side of a row: its bars, and a mark for each quantile.
    fn half(&self, name: &str, call: Call, histogram: &Times, middle: f64) -> String {
        let bars = bars(histogram);
        let most = bars.iter().map(|bar| bar.1).max().unwrap_or(1) as f64;
        let mut svg = format!("<g class=\"{}\">", call.name());
        for (index, count) in bars {
            let (from, to) = (2f64.powf(f64::from(index) / BARS), 2f64.powf(f64::from(index + 1) / BARS));
            let height = ((count as f64).ln_1p() / most.ln_1p() * HALF).max(1.0);
            let y = if call.sign() < 0.0 { middle - height } else { middle };
            let (x, width) = (self.place(from), self.place(to) - self.place(from));
            let share = count as f64 / histogram.count() as f64 * 100.0;
            let words = format!(
                "{name}, {}: {} of {} ({} %)\n{} to {}",
                call.name(),
                units::whole(count),
                units::whole(histogram.count()),
                units::digits(share),
                units::time(from),
                units::time(to)
            );
            let _ = write!(
                svg,
                "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" data-tip=\"{}\"/>",
                number((x * 100.0).round() / 100.0),
                number((y * 100.0).round() / 100.0),
                number((width * 100.0).round() / 100.0),
                number((height * 100.0).round() / 100.0),
                xml(&words)
            );
        }
        svg.push_str(&self.marks(name, call, histogram, middle));
        svg.push_str("</g>");
        svg
    }

    fn marks(&self, name: &str, call: Call, histogram: &Times, middle: f64) -> String {
        let quantiles = QUANTILES.map(|(name, part)| (name, histogram.quantile(part)));
        let all = quantiles.into_iter().chain([("max", histogram.max())]).filter(|(_, value)| *value > 0);
        let mark = |(quantile, value): (&str, u64)| {
            let (x, y) = (self.place(value as f64), middle + call.sign() * (HALF + 3.0));
            let words = format!("{name}, {}: {quantile} {}", call.name(), units::time(value as f64));
            format!(
                "<path class=\"quantile\" d=\"M{0} {middle}V{1}\"/><circle class=\"quantile\" cx=\"{0}\" cy=\"{1}\" r=\"2.6\" data-tip=\"{2}\"/>",
                number((x * 100.0).round() / 100.0),
                number(y),
                xml(&words)
            )
        };
        all.map(mark).collect()
    }
}

/// Counts by bar: bar `n` begins at 2^(n ÷ bars of an octave) nanoseconds.
fn bars(histogram: &Times) -> Vec<(i32, u64)> {
    let mut bars: Vec<(i32, u64)> = Vec::new();
    for (value, count) in histogram.steps() {
        let index = ((value.max(1) as f64).log2() * BARS).floor() as i32;
        match bars.last_mut() {
            Some(last) if last.0 == index => last.1 += count,
            _ => bars.push((index, count)),
        }
    }
    bars
}
