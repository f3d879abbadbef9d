//! Time by CPUs, as SVG. Both axes are logarithmic: half the time on twice the CPUs is one slope.

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

/// Where a value stands between the ends of an axis, from 0 to 1.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let ends = Self { low: f64::MAX, high: f64::MIN };
        values.fold(ends, |it, value| Self { low: it.low.min(value), high: it.high.max(value) })
    }

    fn along(self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln().max(1e-9)
    }
}

struct Picture {
    cpus: Axis,
    ms: Axis,
    svg: String,
}

fn draw(curves: &[Vec<Outcome>; 4]) -> String {
    let points = || curves.iter().flatten();
    let cpus = Axis::of(points().map(|it| it.load.cpus as f64));
    let mut picture = Picture { cpus, ms: Axis::of(points().map(Outcome::ms)), svg: String::new() };
    let size = format!("viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\"");
    picture.line(format_args!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size}>"));
    picture.line(format_args!("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"));
    curves[0].iter().for_each(|outcome| picture.column(outcome.load.cpus));
    (0..5).for_each(|power| [1.0, 3.0].iter().for_each(|by| picture.row(by * 10f64.powi(power))));
    curves.iter().zip(COLORS).for_each(|(curve, color)| picture.curve(curve, color));
    picture.line(format_args!(
        "<text x=\"{LEFT}\" y=\"22\">the same work on more CPUs, virtual ms</text>\n</svg>"
    ));
    picture.svg
}

impl Picture {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.svg, "{text}").expect("a string");
    }

    fn x(&self, cpus: usize) -> f64 {
        LEFT + self.cpus.along(cpus as f64) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ms: f64) -> f64 {
        HEIGHT - EDGE - self.ms.along(ms) * (HEIGHT - 2.0 * EDGE)
    }

    fn column(&mut self, cpus: usize) {
        let (at, bottom) = (self.x(cpus), HEIGHT - EDGE);
        self.line(format_args!("<path d=\"M{at:.1} {EDGE}V{bottom}\" stroke=\"#ddd\"/>"));
        let below = bottom + 16.0;
        self.line(format_args!("<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{cpus}</text>"));
    }

    fn row(&mut self, ms: f64) {
        if (self.ms.low..=self.ms.high).contains(&ms) {
            let (at, right, left) = (self.y(ms), WIDTH - RIGHT, LEFT - 6.0);
            self.line(format_args!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
            let at = at + 4.0;
            self.line(format_args!("<text x=\"{left}\" y=\"{at:.1}\" text-anchor=\"end\">{ms} ms</text>"));
        }
    }

    fn curve(&mut self, outcomes: &[Outcome], color: &str) {
        let Some(last) = outcomes.last() else { return };
        let place = |it: &Outcome| format!("{:.1},{:.1}", self.x(it.load.cpus), self.y(it.ms()));
        let points = outcomes.iter().map(place).collect::<Vec<_>>().join(" ");
        let style = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"");
        self.line(format_args!("<polyline points=\"{points}\" {style}/>"));
        let (right, at, design) = (WIDTH - RIGHT + 8.0, self.y(last.ms()) + 4.0, last.load.design);
        self.line(format_args!("<text x=\"{right}\" y=\"{at:.1}\" fill=\"{color}\">{design}</text>"));
    }
}
