//! A picture as SVG, that zooms and tells what is under the pointer.
//!
//! ```text
//!   title                                                     pane: what zooms, one for each strip
//!   legend: a swatch, a name, a count and bytes for each class  ┌────────┬──────────────────────┐
//!   name of the strip                            + - all        │address │ window ⊃ view        │
//!   pane                                                        └────────┴──────────────────────┘
//! ```
//!
//! Elements of a class are in a group that has its colour; over them is a pattern for who does not see colours. The script
//! stretches only the view, so that addresses stay where they can be read.

mod canvas;

use super::escape::{number, xml};
use super::layout::{Layout, Line, layout};
use super::{Class, Strip, Total, totals};
use crate::units::{counted, human_bytes};
use canvas::Canvas;
use std::fmt::Write;

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
/// An item of the legend: four in a line.
const ITEM_WIDTH: f64 = 292.0;
const ITEM_STEP: f64 = 24.0;

/// What colours and names a picture: for a page that shows pictures without their own.
pub const CSS: &str = include_str!("picture.css");
/// What makes the pictures of a page zoom. It must run after them.
pub const SCRIPT: &str = include_str!("picture.js");

/// Where a picture is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    /// In a file of its own.
    Alone,
    /// In a page that has [`CSS`] and [`SCRIPT`]; no other picture in it has this identifier.
    Page(&'a str),
}

/// The picture of `strips`.
#[must_use]
pub fn picture(title: &str, strips: &[Strip], place: Place<'_>) -> String {
    Painter::new(strips, place).picture(title, strips)
}

struct Painter<'a> {
    place: Place<'a>,
    rows: u64,
    /// The most pieces of a strip.
    pieces: usize,
    body: String,
    y: f64,
}

impl<'a> Painter<'a> {
    fn new(strips: &[Strip], place: Place<'a>) -> Self {
        let count = strips.len().max(1);
        let pieces = (MOST_ELEMENTS - OTHER_ELEMENTS) / ELEMENTS_EACH / count;
        Self { place, rows: (MOST_ROWS / count as u64).max(8), pieces, body: String::new(), y: 0.0 }
    }

    fn id(&self) -> &'a str {
        match self.place {
            Place::Alone => "vmap",
            Place::Page(id) => id,
        }
    }

    fn picture(mut self, title: &str, strips: &[Strip]) -> String {
        self.y = 30.0;
        self.text("title", 16.0, title);
        self.legend(&totals(strips), guards(strips));
        for (index, strip) in strips.iter().enumerate() {
            self.strip(index, strip);
        }
        let (body, height) = (&self.body, number(self.y + 8.0));
        let (style, script) = match self.place {
            Place::Alone => {
                (format!("<style>{CSS}</style>"), format!("<script><![CDATA[\n{SCRIPT}]]></script>"))
            }
            Place::Page(_) => Default::default(),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"vmap\" viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"group\" aria-label=\"{}\">{style}<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\
             {body}{script}</svg>\n",
            xml(title)
        )
    }

    /// A line of text at the current height. Writing to a string can't fail, here and below.
    fn text(&mut self, class: &str, x: f64, text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{}\">{}</text>",
            number(self.y),
            xml(text)
        );
    }

    fn legend(&mut self, totals: &[Total; Class::ALL.len()], guards: Total) {
        self.patterns("legend");
        self.y += 14.0;
        let mut places = Places { left: 0, y: self.y };
        for class in Class::ALL.into_iter().filter(|class| totals[class.index()].count > 0) {
            let thing = if class == Class::Free { "gap" } else { "area" };
            let place = places.next();
            let swatch = format!("b-{}", class.key());
            self.item(place, &swatch, class.name(), thing, totals[class.index()]);
            if pattern(class).is_some() {
                let path = format!("M{} {}h22v14h-22z", number(place.0), number(place.1));
                self.overlay("legend", class, &path);
            }
        }
        if guards.count > 0 {
            self.item(places.next(), "guard", "guard", "page", guards);
        }
        self.y = places.y + ITEM_STEP + 12.0;
    }

    /// A swatch of this class, a name and a total.
    fn item(&mut self, (x, y): (f64, f64), swatch: &str, name: &str, thing: &str, total: Total) {
        let _ = write!(
            self.body,
            "<rect class=\"swatch {swatch}\" x=\"{x}\" y=\"{}\" width=\"22\" height=\"14\"/>\
             <text x=\"{}\" y=\"{}\">{name}<tspan class=\"dim\" dx=\"6\">{} in {}</tspan></text>",
            number(y),
            x + 30.0,
            number(y + 12.0),
            human_bytes(total.bytes),
            counted(total.count, thing),
        );
    }

    /// A class's strokes over all that is filled with its colour: one element, which is far cheaper to paint, and above all to
    /// print, than a pattern in each.
    fn overlay(&mut self, pane: &str, class: Class, path: &str) {
        let (id, key) = (self.id(), class.key());
        let _ = write!(self.body, "<path class=\"overlay\" fill=\"url(#{id}-{pane}-{key})\" d=\"{path}\"/>");
    }

    /// A pane has patterns of its own, which do not grow with it.
    fn patterns(&mut self, pane: &str) {
        self.body.push_str("<defs>");
        for class in Class::ALL {
            let Some(strokes) = pattern(class) else { continue };
            let (id, key) = (self.id(), class.key());
            let _ = write!(
                self.body,
                "<pattern id=\"{id}-{pane}-{key}\" data-pane=\"{pane}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\">{strokes}</pattern>"
            );
        }
        self.body.push_str("</defs>");
    }

    fn strip(&mut self, index: usize, strip: &Strip) {
        let layout = layout(strip, self.rows);
        let pane = index.to_string();
        self.y += 8.0;
        let canvas = Canvas::new(strip, &layout, self.pieces);
        let cells =
            if canvas.cells.is_some() { "; more areas than can be shown one by one: summed up" } else { "" };
        let name = format!("{}, {} a line{cells}", strip.name, human_bytes(layout.line_bytes));
        self.text("name", 16.0, &name);
        let digits = format!("{:x}", strip.end).len();
        let top = self.y + 12.0;
        let _ = write!(
            self.body,
            "<g class=\"pane\" tabindex=\"0\" aria-label=\"{}\" data-pane=\"{pane}\" data-top=\"{top}\" \
             data-digits=\"{digits}\" data-line-bytes=\"{}\" transform=\"translate(0 {top})\">",
            xml(&name),
            layout.line_bytes
        );
        self.patterns(&pane);
        self.controls();
        let height = self.lines(&pane, canvas, &layout, digits);
        self.body.push_str("</g>");
        self.y = top + height + 18.0;
    }

    fn controls(&mut self) {
        self.body.push_str("<g class=\"controls\">");
        let right = VIEW_LEFT + VIEW_WIDTH;
        for (act, face, says, x, width) in [
            ("in", "+", "zoom in", right - 108.0, 26.0),
            ("out", "\u{2212}", "zoom out", right - 78.0, 26.0),
            ("all", "reset", "show all", right - 48.0, 48.0),
        ] {
            let _ = write!(
                self.body,
                "<g class=\"button\" role=\"button\" tabindex=\"0\" aria-label=\"{says}\" data-act=\"{act}\" \
                 transform=\"translate({x} -30)\"><rect width=\"{width}\" height=\"22\" rx=\"4\"/>\
                 <text x=\"{}\" y=\"15.5\">{face}</text></g>",
                width / 2.0
            );
        }
        self.body.push_str("</g>");
    }

    /// The window with all lines, and what stands beside and over it; its height.
    fn lines(&mut self, pane: &str, mut canvas: Canvas<'_>, layout: &Layout, digits: usize) -> f64 {
        for line in &layout.lines {
            match line {
                Line::Row(row) => canvas.row(row, digits),
                Line::Fold(fold) => canvas.fold(fold),
            }
        }
        let height = number(canvas.y);
        let _ = write!(
            self.body,
            "<rect class=\"frame\" x=\"{VIEW_LEFT}\" width=\"{VIEW_WIDTH}\" height=\"{height}\"/>\
             <svg class=\"window\" x=\"{VIEW_LEFT}\" width=\"{VIEW_WIDTH}\" height=\"{height}\">\
             <rect class=\"hit\" width=\"{VIEW_WIDTH}\" height=\"{height}\"/><g class=\"view\">{}",
            canvas.folds
        );
        for class in Class::ALL.into_iter().rev() {
            let rects = &canvas.groups[class.index()];
            if !rects.is_empty() {
                let _ = write!(self.body, "<g class=\"b-{}\">{rects}</g>", class.key());
            }
        }
        for class in Class::ALL.into_iter().filter(|class| pattern(*class).is_some()) {
            let path = &canvas.outlines[class.index()];
            if !path.is_empty() {
                self.overlay(pane, class, path);
            }
        }
        if !canvas.guards.is_empty() {
            let _ = write!(self.body, "<path class=\"guards\" d=\"{}\"/>", canvas.guards);
        }
        let _ = write!(self.body, "</g></svg>{}", canvas.marks);
        canvas.y
    }
}

/// Where the items of a legend go.
struct Places {
    left: usize,
    y: f64,
}

impl Places {
    fn next(&mut self) -> (f64, f64) {
        let columns = (WIDTH / ITEM_WIDTH) as usize;
        if self.left == columns {
            *self = Self { left: 0, y: self.y + ITEM_STEP };
        }
        self.left += 1;
        (16.0 + (self.left - 1) as f64 * ITEM_WIDTH, self.y)
    }
}

/// All guard pages.
fn guards(strips: &[Strip]) -> Total {
    let mut total = Total::default();
    let areas = strips.iter().flat_map(|strip| &strip.areas);
    areas.filter(|area| area.guard_bytes > 0).for_each(|area| total.add(area.guard_bytes));
    total
}

/// The strokes over a class's colour; `None` for those that are one plain colour: what is busy, and what is free.
const fn pattern(class: Class) -> Option<&'static str> {
    match class {
        Class::Busy | Class::Vmalloc | Class::Free => None,
        Class::Vmap => Some("<path class=\"ink\" d=\"M0 3h6\"/>"),
        Class::MapRam => Some("<path class=\"ink\" d=\"M3 0v6\"/>"),
        Class::Ioremap => Some("<path class=\"ink\" d=\"M-1 1l2 -2M0 6l6 -6M5 7l2 -2\"/>"),
        Class::User => Some("<circle class=\"dot\" cx=\"3\" cy=\"3\" r=\"1.4\"/>"),
        Class::Percpu => Some("<path class=\"ink\" d=\"M0 3h6M3 0v6\"/>"),
        Class::Other => Some("<path class=\"ink\" d=\"M0 0l6 6M6 0l-6 6\"/>"),
        Class::Lazy => Some("<path class=\"ink\" d=\"M-1 5l2 2M0 0l6 6M5 -1l2 2\"/>"),
        Class::Pooled => Some(
            "<circle class=\"dot\" cx=\"1.5\" cy=\"1.5\" r=\".9\"/><circle class=\"dot\" cx=\"4.5\" cy=\"4.5\" r=\".9\"/>",
        ),
    }
}

#[cfg(test)]
mod tests;
