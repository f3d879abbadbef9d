//! What tells designs apart: colours (in the style sheet, by class `s0` …), dash patterns and marks, by their place.

use std::fmt::Write;
use vmalloc_lab::picture::escape::{number, xml};

/// Looks there are: of more designs, some look the same but for their names.
pub(super) const LOOKS: usize = 10;

/// The class of the design at `place`.
pub(super) fn class(place: usize) -> String {
    format!("s{}", place % LOOKS)
}

/// The dashes of its lines: ours as a kernel would use it has none.
pub(super) const fn dashes(place: usize) -> &'static str {
    match place % LOOKS {
        0 => "1 4",
        1 => "7 3",
        2 => "2 3",
        3 => "9 3 2 3",
        4 => "5 5",
        5 => "4 2",
        6 => "12 4",
        8 => "8 3 2 3 2 3",
        9 => "2 6",
        _ => "none",
    }
}

/// Its mark, around a point: one of five shapes, filled or open.
pub(super) fn mark(place: usize, x: f64, y: f64) -> String {
    let outline = match place % 5 {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -4.6l4.2 7.6h-8.4z",
        3 => "m0 -5l4.6 5l-4.6 5l-4.6 -5z",
        _ => "m0 4.6l4.2 -7.6h-8.4z",
    };
    let class = if place % LOOKS < LOOKS / 2 { "mark" } else { "mark open" };
    format!("<path class=\"{class}\" d=\"M{} {}{outline}\"/>", number(x), number(y))
}

/// Buttons that show and hide designs.
pub(super) fn legend<'a>(designs: impl Iterator<Item = (usize, &'a str)>) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for (place, name) in designs {
        let (class, dashes, mark) = (class(place), dashes(place), mark(place, 16.0, 7.0));
        let _ = write!(
            html,
            "<li><button type=\"button\" aria-pressed=\"true\" data-series=\"{class}\" title=\"show or hide\">\
             <svg class=\"{class}\" width=\"32\" height=\"14\" aria-hidden=\"true\">\
             <path class=\"line\" stroke-dasharray=\"{dashes}\" d=\"M0 7h32\"/>{mark}</svg>{}</button></li>",
            xml(name)
        );
    }
    html.push_str("</ul>");
    html
}
