//! Changes of a text, each behind a switch that is read at run time.

use std::cmp::Reverse;
use std::ops::Range;

/// A change of a file.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    /// The number that turns it on.
    pub(crate) number: u32,
    /// The expression, or the statements, that it replaces.
    pub(crate) range: Range<usize>,
    pub(crate) after: String,
}

/// A text with switches.
pub(crate) struct Switched {
    pub(crate) text: String,
    /// Where the edits lie in it, with their numbers.
    pub(crate) places: Vec<(u32, Range<usize>)>,
}

/// Puts each edit of `text` behind its switch. Edits may lie in each other: then the inner one is
/// in the original part of the outer one.
///
/// # Errors
/// The numbers of two edits that overlap otherwise.
pub(crate) fn switch(text: &str, edits: &[Edit]) -> Result<Switched, (u32, u32)> {
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| (edit.range.start, Reverse(edit.range.end), edit.number));
    let mut switched = Switched { text: String::new(), places: Vec::new() };
    // The edits that are begun: the innermost last.
    let (mut open, mut done): (Vec<(&Edit, usize)>, usize) = (Vec::new(), 0);
    for edit in sorted {
        close(&mut switched, &mut open, text, &mut done, edit.range.start);
        if let Some((outer, _)) = open.last().filter(|(outer, _)| outer.range.end < edit.range.end) {
            return Err((outer.number, edit.number));
        }
        switched.text += &text[done..edit.range.start];
        done = edit.range.start;
        open.push((edit, switched.text.len()));
        let paren = if is_statement(&text[edit.range.clone()]) { "" } else { "(" };
        switched.text +=
            &format!("{paren}if crate::mutant::is({}) {{ {} }} else {{ ", edit.number, edit.after);
    }
    close(&mut switched, &mut open, text, &mut done, text.len());
    switched.text += &text[done..];
    Ok(switched)
}

/// Ends the edits that end up to the place `to` of `text`, which is written up to `done`.
fn close(switched: &mut Switched, open: &mut Vec<(&Edit, usize)>, text: &str, done: &mut usize, to: usize) {
    while let Some((edit, start)) = open.pop_if(|(edit, _)| edit.range.end <= to) {
        switched.text += &text[*done..edit.range.end];
        *done = edit.range.end;
        switched.text += if is_statement(&text[edit.range.clone()]) { " }" } else { " })" };
        switched.places.push((edit.number, start..switched.text.len()));
    }
}

fn is_statement(before: &str) -> bool {
    before.ends_with([';', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(number: u32, text: &str, before: &str, after: &str) -> Edit {
        let start = text.find(before).unwrap();
        Edit { number, range: start..start + before.len(), after: after.to_owned() }
    }

    #[test]
    fn statements_and_expressions_get_their_switch() {
        let text = "{ a(b < c); d }";
        let edits = [edit(7, text, "b < c", "b <= c"), edit(2, text, "a(b < c);", "")];
        let switched = switch(text, &edits).unwrap();
        let inner = "(if crate::mutant::is(7) { b <= c } else { b < c })";
        assert_eq!(switched.text, format!("{{ if crate::mutant::is(2) {{  }} else {{ a({inner}); }} d }}"));
        let (number, place) = &switched.places[0];
        assert_eq!((*number, &switched.text[place.clone()]), (7, inner));
    }

    #[test]
    fn edits_of_the_same_place_are_alternatives() {
        let edits = [edit(1, "a b", "a", "x"), edit(2, "a b", "a", "y"), edit(3, "a b", "b", "z")];
        let text = switch("a b", &edits).unwrap().text;
        let first = "(if crate::mutant::is(1) { x } else { (if crate::mutant::is(2) { y } else { a }) })";
        assert_eq!(text, format!("{first} (if crate::mutant::is(3) {{ z }} else {{ b }})"));
    }

    #[test]
    fn edits_that_cross_are_told() {
        let edits = [edit(1, "a b c", "a b", "x"), edit(2, "a b c", "b c", "y")];
        assert_eq!(switch("a b c", &edits).err(), Some((1, 2)));
    }
}
