//! Plots, drawn by `plotters`: each is an SVG of layers, the axes and a group for each design.
//!
//! What plotters writes has colours of its own, over which those of the style sheet go: by the
//! group's class, which tells a design by its place among all ([`class`]).

use super::data::DesignData;
use super::units;
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;
use vmalloc_lab::times::{QUANTILES, Times};

/// Looks there are: of more designs, some look the same but for their names.
pub(super) const LOOKS: usize = 10;
const SIZE: (u32, u32) = (960, 430);
/// The most values that are written at an axis: so many that those of two decades have parts.
const LABELS: usize = 11;
const LABELS_OF_DECADES: usize = 20;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Returns the class of the design at `place`.
pub(super) fn class(place: usize) -> String {
    format!("s{}", place % LOOKS)
}

/// Writes buttons that show and hide designs.
pub(super) fn legend<'a>(designs: impl Iterator<Item = (usize, &'a str)>) -> Markup {
    html! {
        ul.legend {
            @for (place, name) in designs {
                @let class = class(place);
                li { button type="button" aria-pressed="true" data-series=(class) title="show or hide" {
                    svg class=(class) width="32" height="14" aria-hidden="true" {
                        polyline points="0,7 32,7" {} circle cx="16" cy="7" r="4" {}
                    }
                    (name)
                } }
            }
        }
    }
}

/// An axis.
#[derive(Clone)]
pub(super) struct Axis {
    /// The quantity, with its unit.
    title: String,
    /// How a value is written.
    write: fn(f64) -> String,
    /// Of a logarithmic one the base.
    base: Option<f64>,
    ends: Range<f64>,
}

impl Axis {
    /// A logarithmic one, from one power of `base` to another around all `values`.
    pub(super) fn powers(
        title: &str,
        write: fn(f64) -> String,
        base: f64,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let powers: Vec<_> = values.filter(|value| *value > 0.0).map(|value| value.log(base)).collect();
        let first = powers.iter().copied().reduce(f64::min).unwrap_or(0.0).floor();
        let last = powers.iter().copied().fold(first + 1e-9, f64::max).ceil();
        let ends = base.powf(first)..base.powf(last);
        Self { title: title.into(), write, base: Some(base), ends }
    }

    /// A linear one, from `floor` to somewhat above the greatest of `values`.
    pub(super) fn linear(
        title: &str,
        write: fn(f64) -> String,
        floor: f64,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let most = values.fold(floor, f64::max);
        let ends = floor..if most > floor { floor + (most - floor) * 1.05 } else { floor + 1.0 };
        Self { title: title.into(), write, base: None, ends }
    }

    /// The most values that are written at it.
    fn labels(&self) -> usize {
        if self.base == Some(10.0) { LABELS_OF_DECADES } else { LABELS }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self.base {
            Some(base) => LogCoord::from(self.ends.clone().log_scale().base(base)).map(value, limit),
            None => RangedCoordf64::from(self.ends.clone()).map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.base {
            Some(base) => LogCoord::from(self.ends.clone().log_scale().base(base)).key_points(hint),
            None => RangedCoordf64::from(self.ends.clone()).key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

/// A design's line.
pub(super) struct Line {
    pub(super) place: usize,
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
    /// True if each point has a mark, not only the last one.
    pub(super) is_marked: bool,
    /// True if it ends early: the design was too slow, or refused.
    pub(super) is_cut: bool,
}

/// Draws lines.
pub(super) fn lines(x: &Axis, y: &Axis, lines: &[Line]) -> Markup {
    let axes = axes(x, y, 62, |chart| {
        let (write_x, write_y) = (|value: &f64| (x.write)(*value), |value: &f64| (y.write)(*value));
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().y_desc(&y.title).y_labels(y.labels()).y_label_formatter(&write_y);
        mesh.max_light_lines(0).x_desc(&x.title).x_labels(LABELS).x_label_formatter(&write_x).draw()
    });
    let line = |line: &Line| {
        layer(|area| {
            let mut chart = chart(area, x, y, 62)?;
            chart.draw_series(LineSeries::new(line.points.iter().copied(), &BLACK))?;
            let skipped = if line.is_marked { 0 } else { line.points.len().saturating_sub(1) };
            let marks = line.points.iter().skip(skipped);
            chart.draw_series(marks.map(|&point| Circle::new(point, 4, BLACK.filled())))?;
            let cut = line.points.last().filter(|_| line.is_cut);
            chart.draw_series(cut.map(|&point| Cross::new(point, 7, BLACK))).map(|_| ())
        })
    };
    let title = format!("{} against {}", y.title, x.title);
    let lines = lines.iter().map(|it| (it.place, it.name, line(it)));
    svg("plot", &title, axes, lines)
}

/// Draws histograms of calls under each other, a row for each design: allocations upwards, frees
/// downwards. Heights are logarithms of counts, so that a single slow call in a million is still
/// seen; rings tell the quantiles.
pub(super) fn ridges(designs: &[DesignData]) -> Markup {
    let histograms = designs.iter().flat_map(|design| [&design.latency.alloc, &design.latency.free]);
    let ends = histograms.flat_map(|calls| [calls.steps().next().map_or(10, |step| step.0), calls.max()]);
    let x = Axis::powers("time of a call", units::time, 10.0, ends.map(|end| end as f64));
    let rows = designs.len() as f64;
    let y = Axis { ends: 0.0..rows.max(1.0), ..Axis::linear("", units::digits, 0.0, std::iter::empty()) };
    let axes = axes(&x, &y, 150, |chart| {
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().disable_y_axis().max_light_lines(0).x_labels(LABELS);
        mesh.x_desc("time of a call (logarithmic; heights too); alloc \u{2191}, free \u{2193}");
        mesh.x_label_formatter(&|value| (x.write)(*value)).draw()
    });
    let row = |(row, design): (usize, &DesignData)| {
        let base = rows - row as f64 - 0.5;
        let drawn = layer(|area| {
            let mut chart = chart(area, &x, &y, 150)?;
            let name = EmptyElement::at((x.ends.start, base)) + Text::new(design.name, (-148, -7), ("", 13));
            chart.draw_series([name])?;
            half(&mut chart, &design.latency.alloc, base, 0.42, BLACK.mix(1.0))?;
            half(&mut chart, &design.latency.free, base, -0.42, BLACK.mix(0.6))
        });
        (design.place, design.name, drawn)
    };
    svg("plot ridges", "histograms of the time of calls", axes, designs.iter().enumerate().map(row))
}

/// Draws the bars of one side of a row, and its quantiles.
fn half(chart: &mut Chart<'_, '_>, calls: &Times, base: f64, height: f64, color: RGBAColor) -> Drawn<()> {
    /// Bars of an octave.
    const BARS: f64 = 4.0;
    let mut bars = std::collections::BTreeMap::<i32, u64>::new();
    for (value, count) in calls.steps() {
        *bars.entry(((value.max(1) as f64).log2() * BARS).floor() as i32).or_default() += count;
    }
    let most = bars.values().max().copied().unwrap_or(1) as f64;
    let bar = |(&index, &count): (&i32, &u64)| {
        let [from, to] = [index, index + 1].map(|index| 2f64.powf(f64::from(index) / BARS));
        let top = base + (count as f64).ln_1p() / most.ln_1p() * height;
        Rectangle::new([(from, base), (to, top)], color.filled())
    };
    chart.draw_series(bars.iter().map(bar))?;
    let quantiles = QUANTILES.map(|(_, part)| calls.quantile(part)).into_iter().chain([calls.max()]);
    let ring = |value: u64| Circle::new((value as f64, base + height * 1.1), 3, BLACK);
    chart.draw_series(quantiles.filter(|value| *value > 0).map(ring)).map(|_| ())
}

fn svg<'a>(
    class: &str,
    title: &str,
    axes: Markup,
    series: impl Iterator<Item = (usize, &'a str, Markup)>,
) -> Markup {
    html! {
        svg class=(class) viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(title) {
            g.grid { (axes) }
            @for (place, name, drawn) in series {
                g class={ "series " (self::class(place)) } data-name=(name) { title { (name) } (drawn) }
            }
        }
    }
}

fn axes(x: &Axis, y: &Axis, left: u32, draw: impl FnOnce(&mut Chart<'_, '_>) -> Drawn<()>) -> Markup {
    layer(|area| draw(&mut chart(area, x, y, left)?))
}

fn chart<'a, 'b>(area: &'a Area<'b>, x: &Axis, y: &Axis, left: u32) -> Drawn<Chart<'a, 'b>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).margin_right(28).x_label_area_size(46).y_label_area_size(left);
    builder.build_cartesian_2d(x.clone(), y.clone())
}

/// Returns what `draw` draws, without the SVG around it.
fn layer(draw: impl FnOnce(&Area<'_>) -> Drawn<()>) -> Markup {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw(&area).and_then(|()| area.present()).expect("a string takes everything");
    drop(area);
    let (_, inside) = svg.split_once('>').unwrap_or_default();
    PreEscaped(inside.replace("</svg>", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_all_values() {
        let powers = |values: &[f64]| Axis::powers("", units::digits, 10.0, values.iter().copied()).ends;
        let linear = |values: &[f64]| Axis::linear("", units::digits, 1.0, values.iter().copied()).ends;
        for (ends, least, most) in [
            (powers(&[32.0, 4500.0]), 32.0, 4500.0),
            (powers(&[100.0]), 100.0, 100.0),
            (powers(&[0.0]), 1.0, 10.0),
            (linear(&[1.0, 1.35]), 1.0, 1.35),
            (linear(&[]), 1.0, 1.0),
        ] {
            assert!(ends.start < ends.end, "{ends:?}");
            assert!(ends.start <= least * 1.001 && most <= ends.end * 1.001, "{ends:?}");
        }
    }
}
