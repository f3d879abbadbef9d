//! Lines over two axes, as SVG.
//!
//! A plot is drawn twice: for wide pages with the names of the designs at the ends of their lines,
//! and for narrow ones. `data-points` of a line has what the pointer tells: the place of each
//! point, and its values in words.

use super::axis::Axis;
use super::frame::{BOTTOM, Frame, TOP, short};
use super::series;
use maud::{Markup, html};
use serde::Serialize;

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
    /// The points that have a mark.
    pub(super) marks: Marks,
    /// The way in which it ends.
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

const WIDE: Frame = Frame { class: "wide", width: 960.0, left: 62.0, right: 158.0, ticks: 12 };
const NARROW: Frame = Frame { class: "narrow", width: 380.0, left: 50.0, right: 16.0, ticks: 5 };
/// From one name to the next below.
const NAME_STEP: f64 = 16.0;
/// Of a letter, about: so that names do not overlap.
const LETTER_WIDTH: f64 = 7.2;

impl Plot {
    /// Draws both.
    pub(super) fn svg(&self) -> Markup {
        let drawings = [(WIDE, 430.0), (NARROW, 330.0)].map(|(frame, height)| Drawing {
            plot: self,
            frame,
            bottom: height - BOTTOM,
        });
        html! { @for drawing in drawings { (drawing.svg()) } }
    }
}

struct Drawing<'a> {
    plot: &'a Plot,
    frame: Frame,
    /// The height of the axis below.
    bottom: f64,
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
        self.frame.x(&self.plot.x, value)
    }

    fn y(&self, value: f64) -> f64 {
        short(self.bottom - self.plot.y.place(value) * (self.bottom - TOP))
    }

    fn svg(&self) -> Markup {
        let (frame, bottom, Plot { x, y, lines }) = (&self.frame, self.bottom, self.plot);
        html! {
            svg class={ "plot " (frame.class) } viewBox={ "0 0 " (frame.width) " " (bottom + BOTTOM) }
                data-left=(frame.left) data-right=(frame.end()) data-top=(TOP) data-bottom=(bottom) role="img"
                aria-label={ (y.title) " against " (x.title) } {
                (self.lines_across())
                text.axis-title x="2" y="14" { (y.title) }
                (frame.axis_below(x, bottom, "v5", &x.title))
                @for line in lines { (self.line(line)) }
                @for name in self.names() { (name.svg()) }
                line.rule y1=(TOP) y2=(bottom) visibility="hidden" {}
            }
        }
    }

    /// Draws lines across, and the values at the axis on the left.
    fn lines_across(&self) -> Markup {
        let (left, axis) = (self.frame.left, &self.plot.y);
        html! {
            g.grid {
                @for &value in &axis.ticks {
                    @let y = self.y(value);
                    path d={ "M" (left) " " (y) "H" (self.frame.end()) } {}
                    text x=(left - 8.0) y=(short(y + 4.0)) text-anchor="end" { ((axis.write)(value)) }
                }
            }
        }
    }

    fn line(&self, line: &Line) -> Markup {
        let spots: Vec<_> = line.points.iter().map(|&(x, y)| self.spot(x, y)).collect();
        let path: Vec<_> = spots.iter().map(|spot| format!("{} {}", spot.0, spot.1)).collect();
        let marked = match line.marks {
            Marks::Each => &spots[..],
            Marks::Last => &spots[spots.len().saturating_sub(1)..],
        };
        html! {
            @if !spots.is_empty() {
                g class={ "series " (series::class(line.place)) } data-name=(line.name)
                    data-points=(serde_json::to_string(&spots).unwrap_or_default()) {
                    (series::line(line.place, &format!("M{}", path.join("L"))))
                    @for spot in marked { (series::mark(line.place, spot.0, spot.1)) }
                }
            }
        }
    }

    fn spot(&self, x: f64, y: f64) -> Spot {
        Spot(self.x(x), self.y(y), (self.plot.x.write)(x), (self.plot.y.write)(y))
    }

    /// Places the names of the designs, where there is room for them: at the right of lines that
    /// get there, else over the last point.
    fn names(&self) -> Vec<Name<'_>> {
        if self.frame.right < LETTER_WIDTH * 10.0 {
            return Vec::new();
        }
        let mut names: Vec<_> = self.plot.lines.iter().filter_map(|line| self.name(line)).collect();
        names.sort_by(|a, b| a.y.total_cmp(&b.y));
        self.separate(&mut names);
        names
    }

    fn name<'l>(&self, line: &'l Line) -> Option<Name<'l>> {
        let &(x, y) = line.points.last()?;
        let end = (self.x(x), self.y(y));
        let (x, y) = match line.end {
            End::Complete => (self.frame.end() + 18.0, end.1 + 4.0),
            End::Early => (end.0 + 10.0, end.1 - 4.0),
        };
        Some(Name { line, x, y, end })
    }

    /// Moves names that are over each other apart, both by as much, until none is.
    fn separate(&self, names: &mut [Name<'_>]) {
        // Each round halves what is wrong, about.
        const ROUNDS: usize = 100;
        let overlap = |a: &Name<'_>, b: &Name<'_>| (a.x - b.x).abs() < LETTER_WIDTH * 17.0;
        let (top, bottom) = (TOP + 4.0, self.bottom + 4.0);
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
}

impl Name<'_> {
    fn svg(&self) -> Markup {
        let Self { line, x, y, end } = self;
        let leader = match line.end {
            End::Complete => format!("M{} {}L{} {}", short(end.0 + 5.0), end.1, x - 4.0, short(y - 4.0)),
            // A cross over the last point.
            End::Early => format!("M{} {}m-6 -6l12 12m0 -12l-12 12", end.0, end.1),
        };
        html! {
            g class=(series::class(line.place)) {
                path.leader d=(leader) {}
                text.name x=(short(*x)) y=(short(*y)) { (line.name) @if line.end == End::Early { " stops" } }
            }
        }
    }
}
