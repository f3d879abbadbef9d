//! Time by CPUs, as SVG: both axes are logarithmic, so half the time on twice the CPUs is one slope.

use crate::load::{Load, Outcome};
use crate::show::F5;
use std::fmt::Write;
use vmalloc_lab::designs::Name;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Space for the numbers of the axes and the names of curves.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 130.0;
const EDGE: f64 = 40.0;
/// Of designs, in their order: told apart in black and white by their names at the right end.
const COLORS: [&str; 4] = ["#888888", "#d08000", "#0060c0", "#00904a"];

/// Runs the designs, and draws them.
pub(crate) fn svg<L: Iterator<Item = Load>>(loads: impl Fn(Name) -> L) -> String {
    let curves = F5.map(|design| loads(design).map(Load::run).collect::<Vec<_>>());
    draw(&curves)
}

fn draw(curves: &[Vec<Outcome>; 4]) -> String {
    let points = || curves.iter().flatten();
    let bounds = |of: fn(&Outcome) -> f64| {
        points().map(of).fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)))
    };
    let (cpus, ms) = (bounds(|it| it.load.cpus as f64), bounds(Outcome::ms));
    let along = |value: f64, (low, high): (f64, f64)| (value / low).ln() / (high / low).ln().max(1e-9);
    let x = |value: f64| LEFT + along(value, cpus) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - EDGE - along(value, ms) * (HEIGHT - 2.0 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(svg, "{text}").expect("a string");
    for outcome in &curves[0] {
        let (at, cpus) = (x(outcome.load.cpus as f64), outcome.load.cpus);
        let (top, bottom) = (EDGE, HEIGHT - EDGE);
        line(format_args!("<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#ddd\"/>"));
        line(format_args!(
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{cpus}</text>",
            bottom + 16.0
        ));
    }
    let powers = (0..5).flat_map(|power| [1.0, 3.0].map(|by| by * 10f64.powi(power)));
    for value in powers.filter(|value| (ms.0..=ms.1).contains(value)) {
        let (at, right) = (y(value), WIDTH - RIGHT);
        line(format_args!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        line(format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value} ms</text>",
            LEFT - 6.0,
            at + 4.0
        ));
    }
    for (curve, color) in curves.iter().zip(COLORS) {
        let Some(last) = curve.last() else { continue };
        let places: Vec<_> =
            curve.iter().map(|it| format!("{:.1},{:.1}", x(it.load.cpus as f64), y(it.ms()))).collect();
        let places = places.join(" ");
        line(format_args!(
            "<polyline points=\"{places}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        ));
        let (at, design) = (y(last.ms()) + 4.0, last.load.design);
        line(format_args!(
            "<text x=\"{}\" y=\"{at:.1}\" fill=\"{color}\">{design}</text>",
            WIDTH - RIGHT + 8.0
        ));
    }
    line(format_args!("<text x=\"{LEFT}\" y=\"22\">the same work on more CPUs, virtual ms</text>\n</svg>"));
    svg
}
