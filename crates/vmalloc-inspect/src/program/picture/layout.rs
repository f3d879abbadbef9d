//! A strip cut into lines: the geometry of every picture.
//!
//! A line has a power of two of bytes and begins at a multiple of it, so that addresses line up.
//! The power is the smallest for which the lines that hold something are few enough; lines that
//! would hold nothing are folded, two or more at a time.

use super::{Part, Strip};

/// The fewest bytes of a line: 16 pages of 4 KiB are still wide enough to be seen one by one on a
/// terminal.
const LEAST_LINE_BYTES: u64 = 64 << 10;

/// A strip in lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a line, a power of two.
    pub line_bytes: u64,
    /// From low addresses to high.
    pub lines: Vec<Line>,
}

/// A line of a picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// Addresses.
    Row(Row),
    /// Lines left out.
    Fold(Fold),
}

/// A line of addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Where it begins: a multiple of its length.
    pub start: u64,
    /// Its parts, in order. The first and the last row of a strip may be covered in part only.
    pub pieces: Vec<Part>,
}

/// Free addresses left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fold {
    /// The first byte left out.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The whole gap, of which the lines above and below may show the ends.
    pub gap_bytes: u64,
}

/// Cuts `strip` into about `most_rows` rows at most: single rows that hold nothing come on top.
#[must_use]
pub fn layout(strip: &Strip, most_rows: u64) -> Layout {
    let parts = strip.parts();
    let mut layout = Layout { line_bytes: line_bytes(&parts, most_rows), lines: Vec::new() };
    for part in parts {
        match part.area {
            Some(_) => layout.push(part),
            None => layout.push_gap(part, strip),
        }
    }
    layout
}

fn line_bytes(parts: &[Part], most_rows: u64) -> u64 {
    let powers = (LEAST_LINE_BYTES.ilog2()..u64::BITS).map(|power| 1 << power);
    powers.into_iter().find(|&bytes| rows(parts, bytes) <= most_rows.max(1)).unwrap_or(1 << (u64::BITS - 1))
}

/// How many rows of so many bytes hold something.
fn rows(parts: &[Part], bytes: u64) -> u64 {
    let mut rows = 0;
    let mut next = 0;
    for part in parts.iter().filter(|part| part.area.is_some()) {
        let (first, last) = (part.start / bytes, (part.end - 1) / bytes);
        rows += (last + 1).saturating_sub(first.max(next));
        next = last + 1;
    }
    rows
}

impl Layout {
    /// Adds a part, cut where lines end.
    fn push(&mut self, part: Part) {
        let mut start = part.start;
        while start < part.end {
            let row_start = start - start % self.line_bytes;
            let end = row_start.checked_add(self.line_bytes).map_or(part.end, |end| end.min(part.end));
            self.row(row_start).pieces.push(Part { start, end, area: part.area });
            start = end;
        }
    }

    /// Adds a gap: what it has of lines that hold something else too, and between them a fold.
    fn push_gap(&mut self, gap: Part, strip: &Strip) {
        let bytes = self.line_bytes;
        // At the ends of a strip there is no line to be completed.
        let start = if gap.start == strip.start { gap.start } else { gap.start.next_multiple_of(bytes) };
        let end = if gap.end == strip.end { gap.end } else { gap.end - gap.end % bytes };
        if start >= end || end - start <= bytes {
            return self.push(gap);
        }
        self.push(Part { end: start, ..gap });
        self.lines.push(Line::Fold(Fold { start, end, gap_bytes: gap.end - gap.start }));
        self.push(Part { start: end, ..gap });
    }

    fn row(&mut self, start: u64) -> &mut Row {
        if !matches!(self.lines.last(), Some(Line::Row(row)) if row.start == start) {
            self.lines.push(Line::Row(Row { start, pieces: Vec::new() }));
        }
        match self.lines.last_mut() {
            Some(Line::Row(row)) => row,
            _ => unreachable!("pushed above"),
        }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(row) => Some(row),
            Line::Fold(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::area;
    use super::super::{Area, Class, Strip};
    use super::*;
    use proptest::prelude::*;

    /// Lines as text: a row's first page and its pieces in pages, a fold's pages.
    fn told(layout: &Layout) -> Vec<String> {
        let piece = |part: &Part| {
            let kind = if part.area.is_some() { '+' } else { '-' };
            format!("{kind}{}", (part.end - part.start) >> 12)
        };
        let line = |line: &Line| match line {
            Line::Row(row) => {
                format!("{}: {}", row.start >> 12, row.pieces.iter().map(piece).collect::<Vec<_>>().join(" "))
            }
            Line::Fold(fold) => format!("fold {} of {}", (fold.end - fold.start) >> 12, fold.gap_bytes >> 12),
        };
        layout.lines.iter().map(line).collect()
    }

    #[test]
    fn areas_are_cut_at_lines_and_long_gaps_folded() {
        let areas =
            vec![area(20, 4, Class::Vmalloc), area(30, 10, Class::Vmalloc), area(103, 1, Class::Lazy)];
        let strip = Strip::new("s", 18 << 12, 200 << 12, areas);
        let layout = layout(&strip, 24);
        assert_eq!(layout.line_bytes, 16 << 12);
        assert_eq!(
            told(&layout),
            ["16: -2 +4 -6 +2", "32: +8 -8", "fold 48 of 63", "96: -7 +1 -8", "fold 88 of 96",]
        );
    }

    #[test]
    fn one_empty_line_is_no_fold() {
        let strip =
            Strip::new("s", 0, 48 << 12, vec![area(0, 16, Class::Vmalloc), area(32, 16, Class::Vmalloc)]);
        assert_eq!(told(&layout(&strip, 24)), ["0: +16", "16: -16", "32: +16"]);
    }

    #[test]
    fn last_address_is_laid_out() {
        let page = |start, end| Area { start, end, guard_bytes: 0, class: Class::Vmalloc, label: None };
        let top = u64::MAX - 4095;
        let strip = Strip::new("s", 0, u64::MAX, vec![page(0, 4096), page(top, u64::MAX)]);
        assert_eq!(layout(&strip, 24).lines.len(), 3);
        assert_eq!(layout(&strip, 1).line_bytes, 1 << 63);
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_piece_or_fold(
            ranges in prop::collection::vec((0u64..1 << 44, 1u64..1 << 30), 0..60), most_rows in 1u64..40,
        ) {
            let areas: Vec<_> =
                ranges.iter().map(|&(start, pages)| area(start, pages, Class::Vmalloc)).collect();
            let Some(strip) = Strip::around("s", areas) else { return Ok(()) };
            let layout = layout(&strip, most_rows);
            let mut from = strip.start;
            let mut full_rows = 0;
            for line in &layout.lines {
                match line {
                    Line::Row(row) => {
                        full_rows += u64::from(row.pieces.iter().any(|piece| piece.area.is_some()));
                        for piece in &row.pieces {
                            prop_assert!(piece.start == from && piece.end > from);
                            prop_assert!(piece.start >= row.start && piece.end <= row.start + layout.line_bytes);
                            from = piece.end;
                        }
                    }
                    Line::Fold(fold) => {
                        prop_assert!(fold.start == from && fold.end - fold.start > layout.line_bytes);
                        prop_assert!(fold.gap_bytes >= fold.end - fold.start);
                        from = fold.end;
                    }
                }
            }
            prop_assert_eq!(from, strip.end);
            prop_assert!(full_rows <= most_rows || layout.line_bytes == 1 << 63);
        }
    }
}
