//! The lines of one strip.

use super::{VIEW_LEFT, VIEW_WIDTH};
use crate::program::picture::layout::{Fold, Layout, Line, Row};
use crate::program::picture::terminal::{Cell, cells};
use crate::program::picture::{Area, Class, Part, Strip, printable, rounded};
use crate::program::units::{counted, human_bytes};
use maud::{Markup, html};
use std::fmt::Write;

/// The most cells of a row, where single areas would be too many: 4 units wide each.
const MOST_CELLS: usize = 256;
pub(super) const ROW_HEIGHT: f64 = 14.0;
const ROW_STEP: f64 = 17.0;
const FOLD_STEP: f64 = 24.0;

/// A rectangle, in units of the drawing.
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    /// Returns its outline as a path.
    pub(super) fn outline(&self) -> String {
        let Self { x, y, width, height } = self;
        format!("M{x} {y}h{width}v{height}h-{width}z")
    }
}

/// All that is painted of one strip.
pub(super) struct Canvas<'a> {
    strip: &'a Strip,
    layout: &'a Layout,
    /// Cells of a row, where single areas are too many: a power of two, so that they begin at round
    /// addresses.
    cells: Option<usize>,
    /// Hexadecimal digits of an address.
    pub(super) digits: usize,
    /// Rectangles of each class, and the words of each.
    pub(super) groups: [(Vec<Rect>, Vec<String>); Class::ALL.len()],
    /// All guard pages.
    pub(super) guards: Vec<Rect>,
    /// Lines that were left out.
    pub(super) folds: Vec<Markup>,
    /// Text beside and over the window.
    pub(super) marks: Vec<Markup>,
    /// Where the next line begins; in the end the height of all.
    pub(super) height: f64,
}

impl<'a> Canvas<'a> {
    /// Paints all lines of `layout`.
    pub(super) fn new(strip: &'a Strip, layout: &'a Layout, most_pieces: usize) -> Self {
        let pieces: usize = layout.rows().map(|row| row.pieces.len()).sum();
        let rows = layout.rows().count().max(1);
        let mut canvas = Self {
            strip,
            layout,
            cells: (pieces > most_pieces).then(|| 1 << (most_pieces / rows).clamp(1, MOST_CELLS).ilog2()),
            digits: format!("{:x}", strip.end).len(),
            groups: Default::default(),
            guards: Vec::new(),
            folds: Vec::new(),
            marks: Vec::new(),
            height: 0.0,
        };
        for line in &layout.lines {
            match line {
                Line::Row(row) => canvas.row(row),
                Line::Fold(fold) => canvas.fold(fold),
            }
        }
        canvas
    }

    /// Returns true if there are more areas than can be shown one by one.
    pub(super) fn has_cells(&self) -> bool {
        self.cells.is_some()
    }

    fn row(&mut self, row: &Row) {
        let middle = self.height + ROW_HEIGHT / 2.0;
        self.marks.push(html! {
            text.address x=(VIEW_LEFT - 10.0) y=(middle + 4.0) data-y=(middle) data-start=(row.start) text-anchor="end" {
                (format!("{:#0width$x}", row.start, width = self.digits + 2))
            }
        });
        match self.cells {
            Some(count) => self.cells(row, count),
            None => row.pieces.iter().for_each(|&piece| self.piece(row, piece)),
        }
        self.height += ROW_STEP;
    }

    /// Returns the rectangle of the bytes from `start` to `end` of a row.
    fn rect(&self, row: &Row, start: u64, end: u64) -> Rect {
        let x = |offset: u64| rounded(offset as f64 / self.layout.line_bytes as f64 * VIEW_WIDTH);
        Rect { x: x(start - row.start), y: self.height, width: x(end - start), height: ROW_HEIGHT }
    }

    fn paint(&mut self, class: Class, rect: Rect, words: String) {
        let (rects, all_words) = &mut self.groups[class.index()];
        rects.push(rect);
        all_words.push(words);
    }

    fn piece(&mut self, row: &Row, piece: Part) {
        let rect = self.rect(row, piece.start, piece.end);
        let Some(index) = piece.area else { return self.paint(Class::Free, rect, gap(piece)) };
        let area = &self.strip.areas[index];
        self.paint(area.class, rect, describe(area));
        // The part of the area's guard that is in this piece of it.
        let start = piece.start.max(area.end - area.guard_bytes);
        if start < piece.end {
            self.guards.push(self.rect(row, start, piece.end));
        }
    }

    /// Paints cells as high as they are full, on free ground.
    fn cells(&mut self, row: &Row, count: usize) {
        let (Some(first), Some(last)) = (row.pieces.first(), row.pieces.last()) else { return };
        let whole = Part { start: first.start, end: last.end, area: None };
        self.paint(Class::Free, self.rect(row, whole.start, whole.end), gap(whole));
        let width = VIEW_WIDTH / count as f64;
        for (index, cell) in cells(self.strip, row, self.layout.line_bytes, count).into_iter().enumerate() {
            let Some(cell) = cell.filter(|cell| cell.used > 0) else { continue };
            let height = rounded((ROW_HEIGHT * cell.used as f64 / cell.bytes as f64).max(2.0));
            let y = rounded(self.height + ROW_HEIGHT - height);
            let words = self.describe_cell(row, index, count, cell);
            self.paint(cell.class, Rect { x: index as f64 * width, y, width, height }, words);
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

    fn fold(&mut self, fold: &Fold) {
        let middle = self.height + FOLD_STEP / 2.0 - 1.5;
        let part = Part { start: fold.start, end: fold.end, area: None };
        self.folds.push(html! {
            path.break d={ "M0 " (middle + 3.0) ("l16 -6l16 6".repeat(32)) } {}
            rect.hit y=(self.height) width=(VIEW_WIDTH) height=(FOLD_STEP - 3.0) { title { (gap(part)) } }
        });
        self.marks.push(html! {
            text.note x=(VIEW_LEFT + VIEW_WIDTH / 2.0) y=(middle + 4.0) data-y=(middle) text-anchor="middle" {
                (human_bytes(fold.gap_bytes)) " free"
            }
        });
        self.height += FOLD_STEP;
    }
}

fn gap(part: Part) -> String {
    format!("{:#x} \u{2013} {:#x}\n{} free", part.start, part.end, human_bytes(part.end - part.start))
}

fn describe(area: &Area) -> String {
    let Area { start, end, guard_bytes, class, label } = area;
    let mut words = format!("{start:#x} \u{2013} {end:#x}\n{} {}", human_bytes(area.bytes()), class.name());
    // Writing to a string can't fail, here and below.
    if *guard_bytes > 0 {
        let _ = write!(words, ", {} of it guard", human_bytes(*guard_bytes));
    }
    if let Some(label) = label {
        let _ = write!(words, "\n{}", printable(label));
    }
    words
}
