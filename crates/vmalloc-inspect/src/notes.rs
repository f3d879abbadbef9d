//! Annotations of areas: what each is for, its guard, its tag and its cookie.

use crate::containers::TableLayout;
use crate::memory::{Memory, at, byte, nth, word};
use std::collections::HashMap;
use vmalloc::Kind;
use vmalloc::Outline;

/// The facts of an area beyond its pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) kind: Option<Kind>,
    pub(crate) guard_pages: u64,
    pub(crate) tag: Option<String>,
    pub(crate) cookie: u64,
}

/// Annotations by the first page of the area.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) by_page: HashMap<u64, Note>,
    /// False if a table could not be read.
    pub(crate) is_whole: bool,
}

/// The kinds, by their codes.
const KINDS: [Kind; 7] =
    [Kind::Vmalloc, Kind::Reserved, Kind::Vmap, Kind::IoMap, Kind::Shared, Kind::Exec, Kind::Tenant];

/// Reads all tables of annotations.
pub(crate) fn read(memory: &Memory<'_>, outline: &Outline) -> Notes {
    let Some(layout) = TableLayout::find(memory, outline) else { return Notes::default() };
    let [first, count, size, place] = outline.tables;
    let mut notes = Notes { by_page: HashMap::new(), is_whole: true };
    for table in 0..count {
        let table = nth(first, table, size).and_then(|table| at(table, place));
        let enter = |entry: &[u8]| notes.by_page.extend([note(entry, outline)]);
        let read = table.and_then(|table| layout.read(memory, table, enter));
        notes.is_whole &= read.is_ok();
    }
    notes
}

fn note(entry: &[u8], outline: &Outline) -> (u64, Note) {
    let [_, key, kind, guard_pages, cookie, has_tag, len, bytes] = outline.entry;
    let code = byte(entry, kind);
    let note = Note {
        kind: KINDS.into_iter().find(|kind| *kind as u8 == code),
        guard_pages: byte(entry, guard_pages).into(),
        tag: if byte(entry, has_tag) == 0 { None } else { tag_at(entry, len, bytes) },
        cookie: word(entry, cookie),
    };
    (word(entry, key), note)
}

fn tag_at(entry: &[u8], len: u64, bytes: u64) -> Option<String> {
    let from = usize::try_from(bytes).ok()?;
    let text = entry.get(from..)?.get(..usize::from(byte(entry, len)))?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

impl Note {
    /// Returns the note that stands for none.
    pub(crate) fn plain(outline: &Outline) -> Self {
        Self { kind: Some(Kind::Vmalloc), guard_pages: outline.guard_pages, tag: None, cookie: 0 }
    }
}
