//! Annotations of areas: what each is for, its guard, its tag and its record.

use crate::containers::in_rows;
use crate::error::InspectError;
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
    pub(crate) record: u64,
}

/// Annotations by the first page of the area.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) by_page: HashMap<u64, Note>,
    /// False if some could not be read.
    pub(crate) is_whole: bool,
}

/// The kinds, by their codes.
const KINDS: [Kind; 7] =
    [Kind::Vmalloc, Kind::Reserved, Kind::Vmap, Kind::IoMap, Kind::Shared, Kind::Exec, Kind::Tenant];

/// The most entries that are read.
const MOST_ENTRIES: u64 = 1 << 22;
/// The most links on the way to an entry: the hash of a page has two bits for each.
const MOST_LINKS: usize = 32;

/// Reads the notes of `busy` areas, by their first pages, and all tables of annotations.
pub(crate) fn read(memory: &Memory<'_>, outline: &Outline, busy: impl Iterator<Item = u64>) -> Notes {
    let mut tables = Tables { memory, outline, by_page: HashMap::new(), entries: 0 };
    let [first, count, size, place] = outline.tables;
    let mut is_whole = noted(&mut tables, busy).is_ok();
    for table in 0..count {
        let root = nth(first, table, size)
            .and_then(|table| at(table, place))
            .and_then(|table| at(table, outline.root));
        is_whole &= root.and_then(|root| tables.read(root, 0)).is_ok();
    }
    Notes { by_page: tables.by_page, is_whole }
}

/// Reads the notes of areas.
fn noted(tables: &mut Tables<'_>, busy: impl Iterator<Item = u64>) -> Result<(), InspectError> {
    let Tables { memory, outline, .. } = *tables;
    let notes = memory.word(outline.notes)?;
    if notes == 0 {
        return Ok(());
    }
    for page in busy {
        let index = page.wrapping_sub(outline.first_pages[1]);
        let Some(note) = in_rows(memory, &outline.note_rows, notes, index, 16)? else { continue };
        let [record, facts] = memory.words(note)?;
        let plain = Note { record, ..Note::plain(outline) };
        let kind = |code: u64| KINDS.into_iter().find(|kind| *kind as u64 == code);
        let note = match facts & 2 {
            0 => plain,
            _ => Note { kind: kind(facts >> 8 & 0xff), guard_pages: facts >> 16, ..plain },
        };
        tables.by_page.insert(page, note);
    }
    Ok(())
}

/// The tables of annotations, as they are read.
struct Tables<'m> {
    memory: &'m Memory<'m>,
    outline: &'m Outline,
    by_page: HashMap<u64, Note>,
    entries: u64,
}

impl Tables<'_> {
    /// Reads the entry that a link leads to, and those below it.
    fn read(&mut self, link: u64, depth: usize) -> Result<(), InspectError> {
        let entry = self.memory.word(link)?;
        if entry == 0 {
            return Ok(());
        }
        self.entries += 1;
        if depth > MOST_LINKS || self.entries > MOST_ENTRIES {
            return Err(InspectError::damaged("a table of annotations"));
        }
        let bytes = self.memory.bytes(entry, self.outline.entry[0])?;
        self.by_page.extend([note(&bytes, self.outline)]);
        let links = at(entry, self.outline.entry[8])?;
        (0..4).try_for_each(|link| self.read(nth(links, link, 8)?, depth + 1))
    }
}

fn note(entry: &[u8], outline: &Outline) -> (u64, Note) {
    let [_, key, kind, guard_pages, record, has_tag, len, bytes, _] = outline.entry;
    let code = byte(entry, kind);
    let note = Note {
        kind: KINDS.into_iter().find(|kind| *kind as u8 == code),
        guard_pages: word(entry, guard_pages),
        tag: if byte(entry, has_tag) == 0 { None } else { tag_at(entry, len, bytes) },
        record: word(entry, record),
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
        Self { kind: Some(Kind::Vmalloc), guard_pages: outline.guard_pages, tag: None, record: 0 }
    }
}
