//! Annotations of areas: what each is for, its guard, its tag and its cookie.

use crate::containers::{List, ListLayout, TableLayout};
use crate::error::InspectError;
use crate::memory::{Memory, at, byte, half, nth, word};
use std::collections::HashMap;
use vmalloc::Kind;
use vmalloc::space::Outline;

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

/// The most names of a table.
const MOST_NAMES: u64 = 1 << 26;

/// The kinds, by their codes.
const KINDS: [Kind; 7] =
    [Kind::Vmalloc, Kind::Reserved, Kind::Vmap, Kind::IoMap, Kind::Shared, Kind::Exec, Kind::Tenant];

/// Reads all tables of annotations.
pub(crate) fn read(memory: &Memory<'_>, outline: &Outline) -> Notes {
    let layouts = (TableLayout::find(memory, outline), ListLayout::find(memory, outline));
    let (Some(entries), Some(lists)) = layouts else { return Notes::default() };
    let [first, count, size, place] = outline.tables;
    let mut notes = Notes { by_page: HashMap::new(), is_whole: true };
    for table in 0..count {
        let table = nth(first, table, size).and_then(|table| at(table, place));
        let read = table.and_then(|table| {
            let names = lists.read(memory, at(table, outline.entry[1])?, MOST_NAMES)?;
            for entry in entries.read(memory, at(table, outline.entry[0])?)? {
                notes.by_page.insert(word(&entry, outline.entry[3]), note(memory, &entry, outline, names)?);
            }
            Ok(())
        });
        notes.is_whole &= read.is_ok();
    }
    notes
}

fn note(memory: &Memory<'_>, entry: &[u8], outline: &Outline, names: List) -> Result<Note, InspectError> {
    let [_, _, _, _, kind, guard_pages, name, cookie] = outline.entry;
    let code = byte(entry, kind);
    let tag = match u64::from(half(entry, name)) {
        0 => None,
        name if name > names.len => None,
        name => {
            let [size, len, bytes] = outline.name;
            let name = memory.bytes(nth(names.first, name - 1, size)?, size)?;
            tag_at(&name, len, bytes)
        }
    };
    Ok(Note {
        kind: KINDS.into_iter().find(|kind| *kind as u8 == code),
        guard_pages: byte(entry, guard_pages).into(),
        tag,
        cookie: word(entry, cookie),
    })
}

fn tag_at(name: &[u8], len: u64, bytes: u64) -> Option<String> {
    let from = usize::try_from(bytes).ok()?;
    let text = name.get(from..)?.get(..usize::from(byte(name, len)))?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

impl Note {
    /// Returns the note that stands for none.
    pub(crate) fn plain(outline: &Outline) -> Self {
        Self { kind: Some(Kind::Vmalloc), guard_pages: outline.guard_pages, tag: None, cookie: 0 }
    }
}
