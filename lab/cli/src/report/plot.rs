//! Lines over two axes, as SVG.
//!
//! A plot is drawn twice: for wide pages with the names of the designs at the ends of their lines, and for narrow ones. What the
//! pointer tells is in `data-points` of each line: the place of each point, and its values in words.

use super::axis::Axis;
use super::series;
use serde::Serialize;
use std::fmt::Write;
use vmalloc_lab::picture::escape::{number, xml};

/// A plot.
pub(super) struct Plot {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// A design's line.
pub(super) struct Line {
    pub(super) place: usize,
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
    /// Whether each point has a mark.
    pub(super) marks: Marks,
    /// Whether it ends before it should.
    pub(super) end: End,
}

/// Which points have a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marks {
    /// Every point.
    Each,
    /// The last one.
    Last,
}

/// How a line ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// With all that there was to measure.
    Complete,
    /// Early: the design was too slow, or refused.
    Early,
}

/// Units of a drawing: where its axes are.
#[derive(Clone, Copy)]
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    /// The most values written at the axis below.
    ticks: usize,
}

const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Names at the ends of lines are on the right.
const WIDE: Frame = Frame { class: "wide", width: 960.0, height: 430.0, left: 62.0, right: 158.0, ticks: 12 };
const NARROW: Frame =
    Frame { class: "narrow", width: 380.0, height: 330.0, left: 50.0, right: 16.0, ticks: 5 };
/// From one name to the next below.
const NAME_STEP: f64 = 16.0;
/// Of a letter, about: so that names do not overlap.
const LETTER_WIDTH: f64 = 7.2;

impl Plot {
    /// Both drawings.
    pub(super) fn svg(&self) -> String {
        [WIDE, NARROW].map(|frame| Drawing { plot: self, frame }.svg()).concat()
    }
}

struct Drawing<'a> {
    plot: &'a Plot,
    frame: Frame,
}

/// A point that the pointer tells of.
#[derive(Serialize)]
struct Spot(f64, f64, String, String);

/// A name, and the end of its line.
struct Name<'a> {
    line: &'a Line,
    x: f64,
    y: f64,
    end: (f64, f64),
}

impl Drawing<'_> {
    fn x(&self, value: f64) -> f64 {
        self.frame.left + self.plot.x.place(value) * (self.frame.width - self.frame.left - self.frame.right)
    }

    fn y(&self, value: f64) -> f64 {
        self.frame.height - BOTTOM - self.plot.y.place(value) * (self.frame.height - BOTTOM - TOP)
    }

    fn svg(&self) -> String {
        let Frame { class, width, height, left, right, .. } = self.frame;
        let (title_x, title_y) = (&self.plot.x.title, &self.plot.y.title);
        let lines: String = self.plot.lines.iter().map(|line| self.line(line)).collect();
        format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" data-left=\"{left}\" data-right=\"{}\" \
             data-top=\"{TOP}\" data-bottom=\"{}\" role=\"img\" aria-label=\"{} against {}\">{}\
             <text class=\"axis-title\" x=\"2\" y=\"14\">{}</text>\
             <text class=\"axis-title\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             {lines}{}<line class=\"rule\" y1=\"{TOP}\" y2=\"{}\" visibility=\"hidden\"/></svg>",
            width - right,
            height - BOTTOM,
            xml(title_y),
            xml(title_x),
            self.grid(),
            xml(title_y),
            left + (width - left - right) / 2.0,
            height - 6.0,
            xml(title_x),
            self.names(),
            height - BOTTOM,
        )
    }

    /// Lines across, and values at both axes. Writing to a string can't fail, here and below.
    fn grid(&self) -> String {
        let Frame { width, height, left, right, ticks, .. } = self.frame;
        let (mut svg, bottom) = (String::from("<g class=\"grid\">"), height - BOTTOM);
        for value in &self.plot.y.ticks {
            let (y, told) = (self.y(*value), xml(&(self.plot.y.write)(*value)));
            let _ = write!(
                svg,
                "<path d=\"M{left} {}H{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{told}</text>",
                number(y),
                width - right,
                left - 8.0,
                number(y + 4.0)
            );
        }
        for value in self.plot.x.sparse(ticks) {
            let (x, told) = (self.x(value), xml(&(self.plot.x.write)(value)));
            let _ = write!(
                svg,
                "<path d=\"M{0} {bottom}v5\"/><text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">{told}</text>",
                number(x),
                bottom + 19.0
            );
        }
        svg.push_str("</g>");
        svg
    }

    fn line(&self, line: &Line) -> String {
        let spots: Vec<_> = line.points.iter().map(|&(x, y)| self.spot(x, y)).collect();
        let path: Vec<_> =
            spots.iter().map(|spot| format!("{} {}", number(spot.0), number(spot.1))).collect();
        if path.is_empty() {
            return String::new();
        }
        let marked = match line.marks {
            Marks::Each => &spots[..],
            Marks::Last => &spots[spots.len() - 1..],
        };
        let marks: String = marked.iter().map(|spot| series::mark(line.place, spot.0, spot.1)).collect();
        let points = serde_json::to_string(&spots).unwrap_or_default();
        format!(
            "<g class=\"series {}\" data-name=\"{}\" data-points=\"{}\">\
             <path class=\"line\" stroke-dasharray=\"{}\" d=\"M{}\"/>{marks}</g>",
            series::class(line.place),
            xml(line.name),
            xml(&points),
            series::dashes(line.place),
            path.join("L"),
        )
    }

    fn spot(&self, x: f64, y: f64) -> Spot {
        let tenth = |place: f64| (place * 10.0).round() / 10.0;
        Spot(tenth(self.x(x)), tenth(self.y(y)), (self.plot.x.write)(x), (self.plot.y.write)(y))
    }

    /// The names of the designs, where there is room for them: at the right of lines that get there, else over the last point.
    fn names(&self) -> String {
        if self.frame.right < LETTER_WIDTH * 10.0 {
            return String::new();
        }
        let mut names: Vec<_> = self.plot.lines.iter().filter_map(|line| self.name(line)).collect();
        names.sort_by(|a, b| a.y.total_cmp(&b.y));
        self.separate(&mut names);
        names.iter().map(|name| self.name_svg(name)).collect()
    }

    fn name<'l>(&self, line: &'l Line) -> Option<Name<'l>> {
        let &(x, y) = line.points.last()?;
        let end = (self.x(x), self.y(y));
        let right = self.frame.width - self.frame.right;
        let (x, y) = match line.end {
            End::Complete => (right + 18.0, end.1 + 4.0),
            End::Early => (end.0 + 10.0, end.1 - 4.0),
        };
        Some(Name { line, x, y, end })
    }

    /// Moves names that are over each other apart, both by as much, until none is.
    fn separate(&self, names: &mut [Name<'_>]) {
        // Each round halves what is wrong, about.
        const ROUNDS: usize = 100;
        let overlap = |a: &Name<'_>, b: &Name<'_>| (a.x - b.x).abs() < LETTER_WIDTH * 17.0;
        let (top, bottom) = (TOP + 4.0, self.frame.height - BOTTOM + 4.0);
        for _ in 0..ROUNDS {
            for below in 1..names.len() {
                let (upper, lower) = names.split_at_mut(below);
                let lower = &mut lower[0];
                let Some(upper) = upper.iter_mut().rfind(|it| overlap(it, lower)) else { continue };
                let short = (upper.y + NAME_STEP - lower.y).max(0.0);
                upper.y = (upper.y - short / 2.0).max(top);
                lower.y = (lower.y + short / 2.0).min(bottom);
            }
        }
    }

    fn name_svg(&self, name: &Name<'_>) -> String {
        let Name { line, x, y, end } = name;
        let class = series::class(line.place);
        let (text, leader) = match line.end {
            End::Complete => {
                let (from, to) = (end.0 + 5.0, x - 4.0);
                (
                    xml(line.name),
                    format!("M{} {}L{} {}", number(from), number(end.1), number(to), number(y - 4.0)),
                )
            }
            End::Early => {
                // A cross over the last point.
                let cross = format!("M{} {}m-6 -6l12 12m0 -12l-12 12", number(end.0), number(end.1));
                (format!("{} stops", xml(line.name)), cross)
            }
        };
        let (x, y) = (number(*x), number(*y));
        format!(
            "<g class=\"{class}\"><path class=\"leader\" d=\"{leader}\"/><text class=\"name\" x=\"{x}\" y=\"{y}\">{text}</text></g>"
        )
    }
}
