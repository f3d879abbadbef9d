//! Colours (in the style sheet, by class `s0` …), dash patterns and marks, which tell designs apart
//! by their place.

use maud::{Markup, html};

/// Looks there are: of more designs, some look the same but for their names.
pub(super) const LOOKS: usize = 10;

/// Returns the class of the design at `place`.
pub(super) fn class(place: usize) -> String {
    format!("s{}", place % LOOKS)
}

/// Returns the dashes of a design's lines: ours as a kernel would use it has none.
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

/// Draws a design's mark around a point: one of five shapes, filled or open.
pub(super) fn mark(place: usize, x: f64, y: f64) -> Markup {
    let outline = match place % 5 {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -4.6l4.2 7.6h-8.4z",
        3 => "m0 -5l4.6 5l-4.6 5l-4.6 -5z",
        _ => "m0 4.6l4.2 -7.6h-8.4z",
    };
    html! { path.mark.open[place % LOOKS >= LOOKS / 2] d={ "M" (x) " " (y) (outline) } {} }
}

/// Draws a design's line with its dashes.
pub(super) fn line(place: usize, path: &str) -> Markup {
    html! { path.line stroke-dasharray=(dashes(place)) d=(path) {} }
}

/// Writes buttons that show and hide designs.
pub(super) fn legend<'a>(designs: impl Iterator<Item = (usize, &'a str)>) -> Markup {
    html! {
        ul.legend {
            @for (place, name) in designs {
                @let class = class(place);
                li { button type="button" aria-pressed="true" data-series=(class) title="show or hide" {
                    svg class=(class) width="32" height="14" aria-hidden="true" {
                        (line(place, "M0 7h32")) (mark(place, 16.0, 7.0))
                    }
                    (name)
                } }
            }
        }
    }
}
