//! The lines of one strip.

use super::{VIEW_LEFT, VIEW_WIDTH, pattern};
use crate::picture::escape::{number, xml};
use crate::picture::layout::{Fold, Layout, Row};
use crate::picture::terminal::{Cell, cells};
use crate::picture::{Area, Class, Part, Strip};
use crate::units::{counted, human_bytes};
use std::fmt::Write;

/// The most cells of a row, where single areas would be too many: 4 units wide each.
const MOST_CELLS: usize = 256;
pub(super) const ROW_HEIGHT: f64 = 14.0;
const ROW_STEP: f64 = 17.0;
const FOLD_STEP: f64 = 24.0;

/// What is painted of one strip.
pub(super) struct Canvas<'a> {
    strip: &'a Strip,
    layout: &'a Layout,
    /// Cells of a row, where single areas are too many: a power of two, so that they begin at round addresses.
    pub(super) cells: Option<usize>,
    /// Rectangles of each class.
    pub(super) groups: [String; Class::ALL.len()],
    /// The outlines of these, where a class has a pattern.
    pub(super) outlines: [String; Class::ALL.len()],
    /// The outline of all guard pages.
    pub(super) guards: String,
    /// Where lines were left out.
    pub(super) folds: String,
    /// What stands beside and over the window.
    pub(super) marks: String,
    /// Where the next line begins.
    pub(super) y: f64,
}

impl<'a> Canvas<'a> {
    /// Nothing painted yet.
    pub(super) fn new(strip: &'a Strip, layout: &'a Layout, most_pieces: usize) -> Self {
        let pieces: usize = layout.rows().map(|row| row.pieces.len()).sum();
        let rows = layout.rows().count().max(1);
        let cells = (pieces > most_pieces).then(|| 1 << (most_pieces / rows).clamp(1, MOST_CELLS).ilog2());
        Self {
            strip,
            layout,
            cells,
            groups: Default::default(),
            outlines: Default::default(),
            guards: String::new(),
            folds: String::new(),
            marks: String::new(),
            y: 0.0,
        }
    }

    fn x(&self, offset: u64) -> f64 {
        offset as f64 / self.layout.line_bytes as f64 * VIEW_WIDTH
    }

    /// Paints a row.
    pub(super) fn row(&mut self, row: &Row, digits: usize) {
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
        if pattern(class).is_some() {
            let path = &mut self.outlines[class.index()];
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        }
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
            human_bytes(cell.used),
            human_bytes(cell.bytes),
            cell.class.name(),
            counted(areas, "area"),
        )
    }

    /// Paints a fold.
    pub(super) fn fold(&mut self, fold: &Fold) {
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
            human_bytes(fold.gap_bytes)
        );
        self.y += FOLD_STEP;
    }
}

fn gap(part: Part) -> String {
    format!("{:#x} \u{2013} {:#x}\n{} free", part.start, part.end, human_bytes(part.end - part.start))
}

/// What is said of an area, escaped.
fn describe(area: &Area) -> String {
    let mut words = format!(
        "{:#x} \u{2013} {:#x}\n{} {}",
        area.start,
        area.end,
        human_bytes(area.bytes()),
        area.class.name()
    );
    if area.guard_bytes > 0 {
        let _ = write!(words, ", {} of it guard", human_bytes(area.guard_bytes));
    }
    if let Some(label) = &area.label {
        let _ = write!(words, "\n{}", xml(label));
    }
    words
}
