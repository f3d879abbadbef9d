//! A picture as SVG, that zooms and tells what is under the pointer.
//!
//! ```text
//!   title                                                     pane: what zooms, one for each strip
//!   legend: a swatch, a name, a count and bytes for each class  ┌────────┬──────────────────────┐
//!   name of the strip                            + - all        │address │ window ⊃ view        │
//!   pane                                                        └────────┴──────────────────────┘
//! ```
//!
//! Elements of a class are in a group that has its fill: a colour, and a pattern for who does not see colours. The script
//! stretches only the view, so that addresses stay where they can be read.

use super::escape::{number, xml};
use super::layout::{Fold, Layout, Line, Row, layout};
use super::terminal::{Cell, cells};
use super::{Area, Class, Part, Strip, Total, counted, human, totals};
use std::fmt::Write;

/// The most elements that a picture may have: browsers keep smooth with so many.
pub const MOST_ELEMENTS: usize = 20_000;
/// Of these, for all that is not an area: rows, folds, labels, legends.
const OTHER_ELEMENTS: usize = 2_000;
/// Elements of a piece: itself, and its words.
const ELEMENTS_EACH: usize = 2;
/// Rows of all strips together, about: at [`ROW_HEIGHT`] they fill a large screen.
const MOST_ROWS: u64 = 44;
/// The most cells of a row, where single areas would be too many: 4 units wide each.
const MOST_CELLS: usize = 256;

/// A power of two, so that pages begin at round coordinates.
const VIEW_WIDTH: f64 = 1024.0;
const VIEW_LEFT: f64 = 160.0;
const WIDTH: f64 = VIEW_LEFT + VIEW_WIDTH + 16.0;
const ROW_HEIGHT: f64 = 14.0;
const ROW_STEP: f64 = 17.0;
const FOLD_STEP: f64 = 24.0;
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
            let swatch = format!("b-{}\"{}", class.key(), self.fill("legend", class));
            self.item(places.next(), &swatch, class.name(), thing, totals[class.index()]);
        }
        if guards.count > 0 {
            self.item(places.next(), "guard\"", "guard", "page", guards);
        }
        self.y = places.y + ITEM_STEP + 12.0;
    }

    /// A swatch, a name and a total; `swatch` is the end of its class and the rest of its attributes.
    fn item(&mut self, (x, y): (f64, f64), swatch: &str, name: &str, thing: &str, total: Total) {
        let _ = write!(
            self.body,
            "<rect class=\"swatch {swatch} x=\"{x}\" y=\"{}\" width=\"22\" height=\"14\"/>\
             <text x=\"{}\" y=\"{}\">{name}<tspan class=\"dim\" dx=\"6\">{} in {}</tspan></text>",
            number(y),
            x + 30.0,
            number(y + 12.0),
            human(total.bytes),
            counted(total.count, thing),
        );
    }

    /// What fills a class: a pattern, where it has one.
    fn fill(&self, pane: &str, class: Class) -> String {
        match pattern(class) {
            Some(_) => format!(" style=\"fill:url(#{}-{pane}-{})\"", self.id(), class.key()),
            None => String::new(),
        }
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
                 patternUnits=\"userSpaceOnUse\"><rect class=\"b-{key}\" width=\"6\" height=\"6\"/>{strokes}</pattern>"
            );
        }
        self.body.push_str("</defs>");
    }

    fn strip(&mut self, index: usize, strip: &Strip) {
        let layout = layout(strip, self.rows);
        let pane = index.to_string();
        self.y += 8.0;
        let name = format!("{}, {} a line", strip.name, human(layout.line_bytes));
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
        let height = self.lines(&pane, strip, &layout, digits);
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
    fn lines(&mut self, pane: &str, strip: &Strip, layout: &Layout, digits: usize) -> f64 {
        let mut canvas = Canvas::new(strip, layout, self.pieces);
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
                let fill = self.fill(pane, class);
                let _ = write!(self.body, "<g class=\"b-{}\"{fill}>{rects}</g>", class.key());
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

/// What is painted of one strip.
struct Canvas<'a> {
    strip: &'a Strip,
    layout: &'a Layout,
    /// Cells of a row, where single areas are too many.
    cells: Option<usize>,
    groups: [String; Class::ALL.len()],
    guards: String,
    folds: String,
    marks: String,
    y: f64,
}

impl<'a> Canvas<'a> {
    fn new(strip: &'a Strip, layout: &'a Layout, most_pieces: usize) -> Self {
        let pieces: usize = layout.rows().map(|row| row.pieces.len()).sum();
        let rows = layout.rows().count().max(1);
        let cells = (pieces > most_pieces).then(|| (most_pieces / rows / 2).clamp(1, MOST_CELLS));
        Self {
            strip,
            layout,
            cells,
            groups: Default::default(),
            guards: String::new(),
            folds: String::new(),
            marks: String::new(),
            y: 0.0,
        }
    }

    fn x(&self, offset: u64) -> f64 {
        offset as f64 / self.layout.line_bytes as f64 * VIEW_WIDTH
    }

    fn row(&mut self, row: &Row, digits: usize) {
        let _ = write!(
            self.marks,
            "<text class=\"address\" x=\"{}\" y=\"{}\" data-y=\"{}\" data-start=\"{}\" text-anchor=\"end\">{:#0w$x}</text>",
            VIEW_LEFT - 10.0,
            number(self.y + ROW_HEIGHT / 2.0 + 4.0),
            number(self.y + ROW_HEIGHT / 2.0),
            row.start,
            row.start,
            w = digits + 2,
        );
        match self.cells {
            Some(count) => self.cells(row, count),
            None => row.pieces.iter().for_each(|&piece| self.piece(row, piece)),
        }
        self.y += ROW_STEP;
    }

    fn piece(&mut self, row: &Row, piece: Part) {
        let (x, width) = (self.x(piece.start - row.start), self.x(piece.end - piece.start));
        let (words, class) = match piece.area {
            Some(index) => (describe(&self.strip.areas[index]), self.strip.areas[index].class),
            None => (gap(piece), Class::Free),
        };
        self.rect(class, x, 0.0, width, ROW_HEIGHT, &words);
        if let Some(index) = piece.area {
            self.guard(row, piece, &self.strip.areas[index]);
        }
    }

    /// The part of an area's guard that is in this piece of it.
    fn guard(&mut self, row: &Row, piece: Part, area: &Area) {
        let start = piece.start.max(area.end - area.guard_bytes);
        if start < piece.end {
            let (x, width) = (self.x(start - row.start), self.x(piece.end - start));
            let (x, y, width) = (number(x), number(self.y), number(width));
            let _ = write!(self.guards, "M{x} {y}h{width}v{ROW_HEIGHT}h-{width}z");
        }
    }

    fn rect(&mut self, class: Class, x: f64, above: f64, width: f64, height: f64, words: &str) {
        let (x, y, width, height) = (number(x), number(self.y + above), number(width), number(height));
        let _ = write!(
            self.groups[class.index()],
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{words}</title></rect>"
        );
    }

    /// Cells as high as they are full, on free ground.
    fn cells(&mut self, row: &Row, count: usize) {
        let line_bytes = self.layout.line_bytes;
        let (Some(first), Some(last)) = (row.pieces.first(), row.pieces.last()) else { return };
        let whole = Part { start: first.start, end: last.end, area: None };
        let (x, width) = (self.x(whole.start - row.start), self.x(whole.end - whole.start));
        self.rect(Class::Free, x, 0.0, width, ROW_HEIGHT, &gap(whole));
        let width = VIEW_WIDTH / count as f64;
        for (index, cell) in cells(self.strip, row, line_bytes, count).into_iter().enumerate() {
            let Some(cell) = cell.filter(|cell| cell.used > 0) else { continue };
            let height = (ROW_HEIGHT * cell.used as f64 / cell.bytes as f64).max(2.0);
            let words = self.describe_cell(row, index, count, cell);
            self.rect(cell.class, index as f64 * width, ROW_HEIGHT - height, width, height, &words);
        }
    }

    fn describe_cell(&self, row: &Row, index: usize, count: usize, cell: Cell) -> String {
        let at = |index: usize| (index as u128 * u128::from(self.layout.line_bytes) / count as u128) as u64;
        let (start, end) = (row.start + at(index), row.start.saturating_add(at(index + 1)));
        let touching = |area: &Area| area.start < end && area.end > start;
        // In order of addresses, so both ends are found by halving.
        let first = self.strip.areas.partition_point(|area| area.end <= start);
        let areas = self.strip.areas[first..].iter().take_while(|area| touching(area)).count() as u64;
        format!(
            "{start:#x} \u{2013} {end:#x}\n{} of {} in use, most of it {}\n{}",
            human(cell.used),
            human(cell.bytes),
            cell.class.name(),
            counted(areas, "area"),
        )
    }

    fn fold(&mut self, fold: &Fold) {
        let middle = self.y + FOLD_STEP / 2.0 - 1.5;
        let mut path = format!("M0 {}", number(middle + 3.0));
        for step in 1..=64 {
            let _ = write!(path, "l16 {}", if step % 2 == 1 { -6 } else { 6 });
        }
        let part = Part { start: fold.start, end: fold.end, area: None };
        let _ = write!(
            self.folds,
            "<path class=\"break\" d=\"{path}\"/><rect class=\"hit\" y=\"{}\" width=\"{VIEW_WIDTH}\" height=\"{}\">\
             <title>{}</title></rect>",
            number(self.y),
            number(FOLD_STEP - 3.0),
            gap(part)
        );
        let _ = write!(
            self.marks,
            "<text class=\"note\" x=\"{}\" y=\"{}\" data-y=\"{}\" text-anchor=\"middle\">{} free</text>",
            VIEW_LEFT + VIEW_WIDTH / 2.0,
            number(middle + 4.0),
            number(middle),
            human(fold.gap_bytes)
        );
        self.y += FOLD_STEP;
    }
}

fn gap(part: Part) -> String {
    format!("{:#x} \u{2013} {:#x}\n{} free", part.start, part.end, human(part.end - part.start))
}

/// What is said of an area, escaped.
fn describe(area: &Area) -> String {
    let mut words =
        format!("{:#x} \u{2013} {:#x}\n{} {}", area.start, area.end, human(area.bytes()), area.class.name());
    if area.guard_bytes > 0 {
        let _ = write!(words, ", {} of it guard", human(area.guard_bytes));
    }
    if let Some(label) = &area.label {
        let _ = write!(words, "\n{}", xml(label));
    }
    words
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
