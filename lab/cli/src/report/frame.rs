//! The margins that plots of both kinds have, and the axis below them.

use super::axis::Axis;
use maud::{Markup, Render, html};

/// From the top of a drawing to its plot, and from its bottom.
pub(super) const TOP: f64 = 30.0;
pub(super) const BOTTOM: f64 = 46.0;

/// The horizontal units of a drawing.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) class: &'static str,
    pub(super) width: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    /// The most values written at the axis below.
    pub(super) ticks: usize,
}

impl Frame {
    /// Returns where a value of the axis below is.
    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        short(self.left + axis.place(value) * (self.end() - self.left))
    }

    /// Returns the right end of the plot.
    pub(super) fn end(&self) -> f64 {
        self.width - self.right
    }

    /// Draws the axis below a plot that ends at height `bottom`: values at lines of the form
    /// `tick`, and a title.
    pub(super) fn axis_below(&self, axis: &Axis, bottom: f64, tick: &str, title: impl Render) -> Markup {
        html! {
            g.grid {
                @for value in axis.sparse(self.ticks) {
                    @let x = self.x(axis, value);
                    path d={ "M" (x) " " (bottom) (tick) } {}
                    text x=(x) y=(bottom + 19.0) text-anchor="middle" { ((axis.write)(value)) }
                }
            }
            text.axis-title x=((self.left + self.end()) / 2.0) y=(bottom + BOTTOM - 6.0) text-anchor="middle" { (title) }
        }
    }
}

/// Rounds a coordinate to what can be seen, so that it is short when it is written.
pub(super) fn short(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
