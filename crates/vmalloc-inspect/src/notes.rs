//! Annotations of areas: what each is for, its tag, its odd size.

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
    let Some(is_some) = some(memory, outline) else { return Notes::default() };
    let [first, count, size, place] = outline.tables;
    let mut notes = Notes { by_page: HashMap::new(), is_whole: true };
    for table in 0..count {
        let entries = nth(first, table, size)
            .and_then(|table| at(table, place))
            .and_then(|table| layout.read(memory, table));
        match entries {
            Ok(entries) => notes.by_page.extend(entries.iter().map(|entry| note(entry, outline, is_some))),
            Err(_) => notes.is_whole = false,
        }
    }
    notes
}

/// Returns the byte that tells that there is a tag: that of the specimen, which has one.
fn some(memory: &Memory<'_>, outline: &Outline) -> Option<u8> {
    let entry = memory.bytes(outline.table[3], outline.entry[0]).ok()?;
    let is_some = byte(&entry, outline.entry[5]);
    let (_, note) = note(&entry, outline, is_some);
    (note.tag.as_deref() == Some(Outline::SPECIMEN_TAG)).then_some(is_some)
}

fn note(entry: &[u8], outline: &Outline, some: u8) -> (u64, Note) {
    let [_, key, kind, guard_pages, tag, is_some, len, bytes] = outline.entry;
    let code = byte(entry, kind);
    let tag = (byte(entry, is_some) == some).then(|| tag_at(entry, tag + len, tag + bytes)).flatten();
    let kind = KINDS.into_iter().find(|kind| *kind as u8 == code);
    (word(entry, key), Note { kind, guard_pages: word(entry, guard_pages), tag })
}

fn tag_at(entry: &[u8], len: u64, bytes: u64) -> Option<String> {
    let from = usize::try_from(bytes).ok()?;
    let text = entry.get(from..)?.get(..usize::from(byte(entry, len)))?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

impl Note {
    /// Returns the note that stands for none.
    pub(crate) fn plain(outline: &Outline) -> Self {
        Self { kind: Some(Kind::Vmalloc), guard_pages: outline.guard_pages, tag: None }
    }
}
