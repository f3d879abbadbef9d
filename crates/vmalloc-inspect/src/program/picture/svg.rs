//! A picture as SVG, that zooms and tells what is under the pointer.
//!
//! ```text
//!   title                                                     pane: what zooms, one for each strip
//!   legend: a swatch, a name, a count and bytes for each class  ┌────────┬──────────────────────┐
//!   name of the strip                            + - all        │address │ window ⊃ view        │
//!   pane                                                        └────────┴──────────────────────┘
//! ```
//!
//! Elements of a class are in a group that has its colour. Over them lies a pattern, for readers
//! who do not see colours. The script stretches only the view, so that addresses stay readable.

mod canvas;

use super::layout::layout;
use super::{Class, Strip, Total, printable, totals};
use crate::program::units::{counted, human_bytes};
use canvas::{Canvas, Rect};
use maud::{Markup, PreEscaped, html};

/// The most elements that a picture may have: browsers keep smooth with so many.
pub const MOST_ELEMENTS: usize = 20_000;
/// Of these, for all that is not an area: rows, folds, labels, legends.
const OTHER_ELEMENTS: usize = 2_000;
/// Elements of a piece: itself, and its words.
const ELEMENTS_EACH: usize = 2;
/// Rows of all strips together, about: at their height they fill a large screen.
const MOST_ROWS: u64 = 44;

/// A power of two, so that pages begin at round coordinates.
const VIEW_WIDTH: f64 = 1024.0;
const VIEW_LEFT: f64 = 160.0;
const WIDTH: f64 = VIEW_LEFT + VIEW_WIDTH + 16.0;
/// Where the title stands, and where the legend begins.
const TITLE_Y: f64 = 30.0;
const LEGEND_Y: f64 = TITLE_Y + 14.0;
/// An item of the legend: so many fit into a line.
const ITEM_WIDTH: f64 = 292.0;
const ITEMS: usize = (WIDTH / ITEM_WIDTH) as usize;
const ITEM_STEP: f64 = 24.0;

const CSS: &str = include_str!("picture.css");
const SCRIPT: &str = include_str!("picture.js");

/// Draws `strips`.
#[must_use]
pub fn picture(title: &str, strips: &[Strip]) -> Markup {
    let count = strips.len().max(1);
    let painter = Painter {
        rows: (MOST_ROWS / count as u64).max(8),
        pieces: (MOST_ELEMENTS - OTHER_ELEMENTS) / ELEMENTS_EACH / count,
    };
    let (legend, mut y) = painter.legend(strips);
    let pane = |(index, strip)| {
        let (pane, end) = painter.pane(index, strip, y + 8.0);
        y = end;
        pane
    };
    let panes: Vec<Markup> = strips.iter().enumerate().map(pane).collect();
    let (title, height) = (printable(title), y + 8.0);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="vmap" viewBox={ "0 0 " (WIDTH) " " (height) } role="group"
            aria-label=(title) {
            style { (PreEscaped(CSS)) }
            rect.ground width=(WIDTH) height=(height) {}
            text.title x="16" y=(TITLE_Y) { (title) }
            (legend)
            @for pane in &panes { (pane) }
            script { (PreEscaped(["<![CDATA[\n", SCRIPT, "]]>"].concat())) }
        }
    }
}

struct Painter {
    rows: u64,
    /// The most pieces of a strip.
    pieces: usize,
}

impl Painter {
    /// Draws the legend; returns also the height below it.
    fn legend(&self, strips: &[Strip]) -> (Markup, f64) {
        let totals = totals(strips);
        let present = Class::ALL.into_iter().filter(|class| totals[class.index()].count > 0);
        let place = |index: usize| {
            (16.0 + (index % ITEMS) as f64 * ITEM_WIDTH, LEGEND_Y + (index / ITEMS) as f64 * ITEM_STEP)
        };
        let guards = guards(strips);
        let count = present.clone().count() + usize::from(guards.count > 0);
        let markup = html! {
            (self.patterns("legend"))
            @for (index, class) in present.enumerate() {
                @let swatch = Rect { x: place(index).0, y: place(index).1, width: 22.0, height: 14.0 };
                @let thing = if class == Class::Free { "gap" } else { "area" };
                (item(&swatch, &format!("b-{}", class.key()), class.name(), thing, totals[class.index()]))
                (self.overlay("legend", class, &[swatch]))
            }
            @if guards.count > 0 {
                @let (x, y) = place(count - 1);
                (item(&Rect { x, y, width: 22.0, height: 14.0 }, "guard", "guard", "page", guards))
            }
        };
        (markup, place(count.saturating_sub(1)).1 + ITEM_STEP + 12.0)
    }

    /// Draws a class's strokes over all that is filled with its colour.
    ///
    /// One element is far cheaper to paint, and above all to print, than a pattern in each.
    fn overlay(&self, pane: &str, class: Class, rects: &[Rect]) -> Markup {
        html! {
            @if pattern(class).is_some() && !rects.is_empty() {
                path.overlay fill={ "url(#vmap-" (pane) "-" (class.key()) ")" } d=(outlines(rects)) {}
            }
        }
    }

    /// Defines the patterns of a pane. Each pane has its own, which do not grow with it.
    fn patterns(&self, pane: &str) -> Markup {
        html! {
            defs {
                @for class in Class::ALL {
                    @if let Some((kind, strokes)) = pattern(class) {
                        pattern id={ "vmap-" (pane) "-" (class.key()) } data-pane=(pane) width="6" height="6"
                            patternUnits="userSpaceOnUse" { path class=(kind) d=(strokes) {} }
                    }
                }
            }
        }
    }

    /// Draws a strip whose name stands at height `y`; returns also the height below it.
    fn pane(&self, index: usize, strip: &Strip, y: f64) -> (Markup, f64) {
        let layout = layout(strip, self.rows);
        let canvas = Canvas::new(strip, &layout, self.pieces);
        let cells =
            if canvas.has_cells() { "; more areas than can be shown one by one: summed up" } else { "" };
        let name = format!("{}, {} a line{cells}", printable(&strip.name), human_bytes(layout.line_bytes));
        let (pane, top, height) = (index.to_string(), y + 12.0, canvas.height);
        let markup = html! {
            text.name x="16" y=(y) { (name) }
            g.pane tabindex="0" aria-label=(name) data-pane=(pane) data-top=(top) data-digits=(canvas.digits)
                data-line-bytes=(layout.line_bytes) transform={ "translate(0 " (top) ")" } {
                (self.patterns(&pane))
                (controls())
                rect.frame x=(VIEW_LEFT) width=(VIEW_WIDTH) height=(height) {}
                svg.window x=(VIEW_LEFT) width=(VIEW_WIDTH) height=(height) {
                    rect.hit width=(VIEW_WIDTH) height=(height) {}
                    g.view { (self.view(&pane, &canvas)) }
                }
                @for mark in &canvas.marks { (mark) }
            }
        };
        (markup, top + height + 18.0)
    }

    /// Draws the part of a pane that zooms.
    fn view(&self, pane: &str, canvas: &Canvas<'_>) -> Markup {
        html! {
            @for fold in &canvas.folds { (fold) }
            @for class in Class::ALL.into_iter().rev() {
                @let (rects, words) = &canvas.groups[class.index()];
                @if !rects.is_empty() {
                    g class={ "b-" (class.key()) } {
                        @for (Rect { x, y, width, height }, words) in rects.iter().zip(words) {
                            rect x=(x) y=(y) width=(width) height=(height) { title { (words) } }
                        }
                    }
                }
            }
            @for class in Class::ALL { (self.overlay(pane, class, &canvas.groups[class.index()].0)) }
            @if !canvas.guards.is_empty() { path.guards d=(outlines(&canvas.guards)) {} }
        }
    }
}

/// Draws a swatch of this class, a name and a total.
fn item(Rect { x, y, width, height }: &Rect, class: &str, name: &str, thing: &str, total: Total) -> Markup {
    html! {
        rect class={ "swatch " (class) } x=(x) y=(y) width=(width) height=(height) {}
        text x=(x + 30.0) y=(y + 12.0) {
            (name) tspan.dim dx="6" { (human_bytes(total.bytes)) " in " (counted(total.count, thing)) }
        }
    }
}

fn controls() -> Markup {
    const RIGHT: f64 = VIEW_LEFT + VIEW_WIDTH;
    let buttons = [
        ("in", "+", "zoom in", RIGHT - 108.0, 26.0),
        ("out", "\u{2212}", "zoom out", RIGHT - 78.0, 26.0),
        ("all", "reset", "show all", RIGHT - 48.0, 48.0),
    ];
    html! {
        g.controls {
            @for (act, face, says, x, width) in buttons {
                g.button role="button" tabindex="0" aria-label=(says) data-act=(act)
                    transform={ "translate(" (x) " -30)" } {
                    rect width=(width) height="22" rx="4" {}
                    text x=(width / 2.0) y="15.5" { (face) }
                }
            }
        }
    }
}

fn outlines(rects: &[Rect]) -> String {
    rects.iter().map(Rect::outline).collect()
}

/// Sums up all guard pages.
fn guards(strips: &[Strip]) -> Total {
    let mut total = Total::default();
    let areas = strips.iter().flat_map(|strip| &strip.areas);
    areas.filter(|area| area.guard_bytes > 0).for_each(|area| total.add(area.guard_bytes));
    total
}

/// Returns the class and the outline of the strokes over a class's colour.
///
/// Areas with memory of their own and free space have none: they are one plain colour.
const fn pattern(class: Class) -> Option<(&'static str, &'static str)> {
    match class {
        Class::Vmalloc | Class::Free => None,
        Class::Vmap => Some(("ink", "M0 3h6")),
        Class::MapRam => Some(("ink", "M3 0v6")),
        Class::Ioremap => Some(("ink", "M-1 1l2 -2M0 6l6 -6M5 7l2 -2")),
        Class::User => Some(("dot", "M1.6 3a1.4 1.4 0 1 0 2.8 0a1.4 1.4 0 1 0 -2.8 0z")),
        Class::Percpu => Some(("ink", "M0 3h6M3 0v6")),
        Class::Other => Some(("ink", "M0 0l6 6M6 0l-6 6")),
        Class::Lazy => Some(("ink", "M-1 5l2 2M0 0l6 6M5 -1l2 2")),
    }
}

#[cfg(test)]
mod tests;
