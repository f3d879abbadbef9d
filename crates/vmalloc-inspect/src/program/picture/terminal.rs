//! A picture in characters.
//!
//! Each cell tells what is most in it, free bytes left aside: a capital letter where at least half
//! is in use, a small one where less is. So it reads without colours, which may be taken off.

use super::layout::{Fold, Layout, Line, Row, layout};
use super::{Class, Strip, Total, totals};
use crate::program::units::{counted, human_bytes};
use std::fmt::Write;

/// The most rows of a strip: two strips, their legend and a summary fit on a large terminal.
const MOST_ROWS: u64 = 24;
/// Columns of an address and the two spaces behind it.
const LABEL_COLUMNS: usize = 20;
/// The fewest cells of a row.
const LEAST_CELLS: usize = 16;

/// All strips, each with its name, and a legend: letters on coloured ground, by ANSI escapes.
#[must_use]
pub fn picture(strips: &[Strip], columns: usize) -> String {
    let painter = Painter { cells: columns.saturating_sub(LABEL_COLUMNS).max(LEAST_CELLS) };
    let mut text = String::new();
    for strip in strips {
        painter.strip(&mut text, strip);
    }
    painter.legend(&mut text, &totals(strips), columns);
    text
}

/// Ends a colour.
const RESET: &str = "\x1b[0m";

struct Painter {
    cells: usize,
}

impl Painter {
    fn strip(&self, text: &mut String, strip: &Strip) {
        let layout = layout(strip, MOST_ROWS);
        // Writing to a string can't fail, here and below.
        let _ = writeln!(text, "{}, {} a line", strip.name, human_bytes(layout.line_bytes));
        for line in &layout.lines {
            match line {
                Line::Row(row) => self.row(text, strip, &layout, row),
                Line::Fold(fold) => self.fold(text, fold),
            }
        }
        text.push('\n');
    }

    fn fold(&self, text: &mut String, fold: &Fold) {
        let note = format!(" {} free ", human_bytes(fold.gap_bytes));
        let _ = writeln!(text, "{:>18}  {note:~^cells$}", "...", cells = self.cells);
    }

    fn row(&self, text: &mut String, strip: &Strip, layout: &Layout, row: &Row) {
        let _ = write!(text, "{:#018x}  ", row.start);
        let cells = cells(strip, row, layout.line_bytes, self.cells);
        let last = cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for run in cells[..last].chunk_by(|a, b| a.map(|cell| cell.class) == b.map(|cell| cell.class)) {
            let letters: String = run.iter().map(|cell| cell.map_or(' ', Cell::letter)).collect();
            match run[0] {
                Some(cell) => {
                    let _ = write!(text, "{}{letters}{RESET}", ansi(cell.class));
                }
                None => text.push_str(&letters),
            }
        }
        text.push('\n');
    }

    fn legend(&self, text: &mut String, totals: &[Total; Class::ALL.len()], columns: usize) {
        let mut line = 0;
        for class in Class::ALL.into_iter().filter(|class| totals[class.index()].count > 0) {
            let Total { count, bytes } = totals[class.index()];
            let what = counted(count, if class == Class::Free { "gap" } else { "area" });
            let item = format!("{} {}: {} in {what}", class.letter(), class.name(), human_bytes(bytes));
            let separator = if line == 0 { "" } else { "   " };
            if line > 0 && line + separator.len() + item.len() > columns {
                text.push('\n');
                line = 0;
            } else {
                text.push_str(separator);
                line += separator.len();
            }
            line += item.len();
            let (letter, rest) = item.split_at(1);
            let _ = write!(text, "{}{letter}{RESET}{rest}", ansi(class));
        }
        text.push_str("\nsmall letters: less than half of the cell is in use\n");
    }
}

/// Dark letters on one of the 256 colours: the hues of the SVG.
const fn ansi(class: Class) -> &'static str {
    match class {
        Class::Vmalloc => "\x1b[38;5;16;48;5;74m",
        Class::Vmap => "\x1b[38;5;16;48;5;36m",
        Class::MapRam => "\x1b[38;5;16;48;5;221m",
        Class::Ioremap => "\x1b[38;5;16;48;5;173m",
        Class::User => "\x1b[38;5;16;48;5;175m",
        Class::Percpu => "\x1b[38;5;16;48;5;140m",
        Class::Other => "\x1b[38;5;16;48;5;250m",
        Class::Lazy => "\x1b[38;5;16;48;5;215m",
        Class::Free => "\x1b[38;5;244m",
    }
}

/// The contents of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    /// The class of most of its bytes, free ones left aside.
    pub(super) class: Class,
    /// Bytes in use.
    pub(super) used: u64,
    /// Bytes of the strip in it.
    pub(super) bytes: u64,
}

impl Cell {
    fn letter(self) -> char {
        let letter = self.class.letter();
        if self.used * 2 < self.bytes { letter.to_ascii_lowercase() } else { letter }
    }
}

/// The cells of a row; `None` where the strip has no byte.
pub(super) fn cells(strip: &Strip, row: &Row, line_bytes: u64, count: usize) -> Vec<Option<Cell>> {
    let mut sums = vec![[0u64; Class::ALL.len()]; count];
    let wide = |value: u64| u128::from(value);
    let cell_of = |offset: u64| (wide(offset) * count as u128 / wide(line_bytes)) as usize;
    // The first byte of a cell.
    let edge = |cell: usize| (cell as u128 * wide(line_bytes)).div_ceil(count as u128) as u64;
    for piece in &row.pieces {
        let class = strip.class(*piece).index();
        let (mut from, end) = (piece.start - row.start, piece.end - row.start);
        while from < end {
            let cell = cell_of(from);
            let to = edge(cell + 1).min(end);
            sums[cell][class] += to - from;
            from = to;
        }
    }
    sums.iter().map(summed).collect()
}

fn summed(sums: &[u64; Class::ALL.len()]) -> Option<Cell> {
    let bytes: u64 = sums.iter().sum();
    let used = bytes - sums[Class::Free.index()];
    let most = |class: &Class| sums[class.index()];
    // Of equals the first in legends.
    let class = Class::ALL.into_iter().rev().filter(|&class| class != Class::Free).max_by_key(most)?;
    let class = if used == 0 { Class::Free } else { class };
    (bytes > 0).then_some(Cell { class, used, bytes })
}

#[cfg(test)]
mod tests {
    use super::super::tests::area;
    use super::*;

    fn strip() -> Strip {
        let areas = vec![area(16, 4, Class::Vmalloc), area(20, 1, Class::Ioremap), area(103, 1, Class::Lazy)];
        Strip::new("window", 16 << 12, 112 << 12, areas)
    }

    /// The picture without its colours.
    fn plain(columns: usize) -> String {
        anstream::adapter::strip_str(&picture(&[strip()], columns)).to_string()
    }

    #[test]
    fn letters_tell_what_is_where() {
        let text = plain(36);
        let expected = "\
window, 64 KiB a line
0x0000000000010000  VVVVI...........
               ...  ~ 328 KiB free ~
0x0000000000060000  .......Z........

V vmalloc: 16 KiB in 1 area
I ioremap: 4 KiB in 1 area
Z lazy: 4 KiB in 1 area
. free: 360 KiB in 2 gaps
small letters: less than half of the cell is in use
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_cell_that_is_free_for_the_most_part_has_a_small_letter() {
        let strip =
            Strip::new("s", 0, 128 << 12, vec![area(2, 3, Class::Vmalloc), area(120, 8, Class::Vmalloc)]);
        let row = layout(&strip, 1).rows().next().cloned().expect("a row");
        let letters: String = cells(&strip, &row, 128 << 12, 16)
            .into_iter()
            .map(|cell| cell.map_or(' ', Cell::letter))
            .collect();
        assert_eq!(letters, "v..............V");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [40, 80, 133] {
            let text = plain(columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns.max(52)), "{text}");
        }
    }
}
