//! Histograms under each other, a row for each design: allocations upwards, frees downwards.
//!
//! Heights are logarithms of counts, so that a single slow call in a million is still seen; marks
//! tell the quantiles.

use super::axis::Axis;
use super::data::DesignData;
use super::frame::{BOTTOM, Frame, TOP, short};
use super::{series, units};
use maud::{Markup, html};
use vmalloc_lab::times::{QUANTILES, Times};

/// Bars of an octave.
const BARS: f64 = 4.0;
const HALF: f64 = 25.0;

/// How rows are laid out.
#[derive(Clone, Copy)]
struct Rows {
    frame: Frame,
    height: f64,
    /// From the top of a row to its base.
    above: f64,
    /// Where the name of a row is, from its base.
    name: (f64, f64),
}

const WIDE: Rows = Rows {
    frame: Frame { class: "wide", width: 960.0, left: 158.0, right: 16.0, ticks: 12 },
    height: 66.0,
    above: 33.0,
    name: (2.0, 4.0),
};
/// Names over the rows.
const NARROW: Rows = Rows {
    frame: Frame { class: "narrow", width: 380.0, left: 10.0, right: 16.0, ticks: 5 },
    height: 86.0,
    above: 52.0,
    name: (10.0, -38.0),
};

/// Draws both.
pub(super) fn svg(designs: &[DesignData]) -> Markup {
    let histograms = designs.iter().flat_map(|design| [&design.latency.alloc, &design.latency.free]);
    let ends = histograms
        .flat_map(|histogram| [histogram.steps().next().map_or(10, |step| step.0), histogram.max()]);
    let x = Axis::decades("time of a call", units::time, ends.map(|end| end as f64));
    html! { @for rows in [WIDE, NARROW] { (Drawing { designs, x: &x, rows }.svg()) } }
}

struct Drawing<'a> {
    designs: &'a [DesignData],
    x: &'a Axis,
    rows: Rows,
}

/// One side of a row: the calls of a design of one kind.
struct Half<'a> {
    /// Their name.
    name: String,
    calls: &'a Times,
    /// The way that bars grow: up is negative.
    sign: f64,
    /// The height of the base.
    middle: f64,
}

impl Drawing<'_> {
    fn x(&self, nanoseconds: f64) -> f64 {
        self.rows.frame.x(self.x, nanoseconds)
    }

    fn svg(&self) -> Markup {
        let Rows { frame, height, above, .. } = self.rows;
        let bottom = TOP + height * self.designs.len() as f64;
        let title = format!("{} (logarithmic; heights too)", self.x.title);
        html! {
            svg class={ "plot ridges " (frame.class) } viewBox={ "0 0 " (frame.width) " " (bottom + BOTTOM) } role="img"
                aria-label="histograms of the time of calls" {
                text.axis-title x=(frame.left) y="14" { "alloc \u{2191} \u{a0} free \u{2193}" }
                (frame.axis_below(self.x, bottom, &format!("v5V{TOP}"), title))
                @for (row, design) in self.designs.iter().enumerate() {
                    (self.row(design, TOP + height * row as f64 + above))
                }
            }
        }
    }

    fn row(&self, design: &DesignData, middle: f64) -> Markup {
        let Rows { frame, name, .. } = self.rows;
        let half = |call, calls, sign| Half { name: format!("{}, {call}", design.name), calls, sign, middle };
        html! {
            g class={ "series " (series::class(design.place)) } {
                path.base d={ "M" (frame.left) " " (middle) "H" (frame.end()) } {}
                g.alloc { (self.half(&half("alloc", &design.latency.alloc, -1.0))) }
                g.free { (self.half(&half("free", &design.latency.free, 1.0))) }
                text.name x=(name.0) y=(middle + name.1) { (design.name) }
            }
        }
    }

    /// Draws the bars of one side, and a mark for each quantile.
    fn half(&self, half: &Half<'_>) -> Markup {
        let Half { name, calls, sign, middle } = half;
        let bars = bars(calls);
        let most = bars.iter().map(|bar| bar.1).max().unwrap_or(1) as f64;
        let quantiles = QUANTILES.map(|(name, part)| (name, calls.quantile(part)));
        let marks = quantiles.into_iter().chain([("max", calls.max())]).filter(|(_, value)| *value > 0);
        html! {
            @for (index, count) in bars {
                @let ends = [index, index + 1].map(|index| 2f64.powf(f64::from(index) / BARS));
                @let [from, to] = ends.map(|end| self.x(end));
                @let height = short(((count as f64).ln_1p() / most.ln_1p() * HALF).max(1.0));
                rect.bar x=(from) y=(if *sign < 0.0 { middle - height } else { *middle }) width=(short(to - from))
                    height=(height) data-tip=(half.words(count, ends)) {}
            }
            @for (quantile, value) in marks {
                @let (x, y) = (self.x(value as f64), middle + sign * (HALF + 3.0));
                path.quantile d={ "M" (x) " " (middle) "V" (y) } {}
                circle.quantile cx=(x) cy=(y) r="2.6"
                    data-tip={ (name) ": " (quantile) " " (units::time(value as f64)) } {}
            }
        }
    }
}

impl Half<'_> {
    /// Describes the bar of the calls that took as long as between `ends`.
    fn words(&self, count: u64, ends: [f64; 2]) -> String {
        let all = self.calls.count();
        let share = units::digits(count as f64 / all as f64 * 100.0);
        let (count, all) = (units::whole(count), units::whole(all));
        let [from, to] = ends.map(units::time);
        format!("{}: {count} of {all} ({share} %)\n{from} to {to}", self.name)
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
