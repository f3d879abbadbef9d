//! Plots of lines, drawn by `plotters`: each is an SVG.

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (960, 430);

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A line for each design: its name, and its points.
pub(super) type Lines = Vec<(&'static str, Vec<(f64, f64)>)>;

/// The axes of a plot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axes {
    /// Both logarithmic; each point has a mark.
    Logarithmic,
    /// Both from zero.
    Linear,
}

/// Draws `lines`; `x` and `y` are what the axes tell.
pub(super) fn plot(x: &str, y: &str, axes: Axes, lines: &Lines) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    // Readers with a dark page read the words all the same.
    area.fill(&WHITE).expect("a string takes everything");
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).x_label_area_size(46).y_label_area_size(80);
    let all = || lines.iter().flat_map(|line| &line.1);
    let (xs, ys) = (ends(axes, all().map(|point| point.0)), ends(axes, all().map(|point| point.1)));
    let drawn = match axes {
        Axes::Linear => {
            builder.build_cartesian_2d(xs, ys).and_then(|mut chart| draw(&mut chart, x, y, 0, lines))
        }
        Axes::Logarithmic => builder
            .build_cartesian_2d(xs.log_scale(), ys.log_scale())
            .and_then(|mut chart| draw(&mut chart, x, y, 3, lines)),
    };
    drawn.and_then(|()| area.present()).expect("a string takes everything");
    drop(builder);
    drop(area);
    svg
}

/// Returns an axis that holds all of `values`.
fn ends(axes: Axes, values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let most = values.clone().fold(1.0, f64::max);
    match axes {
        Axes::Linear => 0.0..most * 1.05,
        Axes::Logarithmic => values.fold(most / 2.0, f64::min).max(1e-3) / 1.2..most * 1.2,
    }
}

fn draw<'a, 'b: 'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    x: &str,
    y: &str,
    mark: u32,
    lines: &Lines,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let write = |value: &f64| ((value * 1e3).round() / 1e3).to_string();
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(0).x_desc(x).y_desc(y).x_label_formatter(&write).y_label_formatter(&write).draw()?;
    for (index, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(index).stroke_width(2);
        let line = LineSeries::new(points.iter().copied(), color).point_size(mark);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color);
        chart.draw_series(line)?.label(*name).legend(key);
    }
    let mut keys = chart.configure_series_labels();
    keys.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8)).draw()
}
