//! A space at one moment: its segments, and what is known of each.

use crate::error::InspectError;
use crate::memory::{Memory, Source};
use crate::notes::{self, Note, Notes};
use crate::target::{ATTEMPTS, SpaceView};
use crate::waiting::{self, Waiting};
use crate::walk::{Start, Walk, walk};
use serde::Serialize;
use std::fmt;
use vmalloc::Outline;

/// The state of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AreaState {
    /// It is free: no area.
    Free,
    /// It has an owner.
    Busy,
    /// Freed; its memory waits for the next owner.
    Cached,
    /// Freed and flushed; its addresses wait in a node.
    Pooled,
    /// Freed; not unmapped and flushed yet.
    Lazy,
    /// Freed; a purge has it.
    Purging,
    /// Freed; the system refuses to unmap it.
    Refused,
    /// Freed, and in no list: on its way from one owner to the next, or a block of short mappings.
    Between,
}

impl fmt::Display for AreaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Busy => "in use",
            Self::Cached => "freed, cached (its memory waits for the next owner)",
            Self::Pooled => "freed, pooled (its addresses wait, without memory)",
            Self::Lazy => "freed, lazy (not unmapped yet)",
            Self::Purging => "freed, being purged",
            Self::Refused => "freed, refused (the system does not unmap it)",
            Self::Between => "freed, on its way to the next owner",
        })
    }
}

/// A segment of a space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Segment {
    /// Its state.
    pub state: AreaState,
    /// Its first address.
    pub addr: u64,
    /// The address behind its last, guard page included.
    pub end: u64,
    /// Bytes asked for; of a segment that is not in use, all of it.
    pub bytes: u64,
    /// Bytes of the guard page behind it.
    pub guard_bytes: u64,
    /// The purpose of the area.
    pub kind: Option<String>,
    /// The owner's name for it.
    pub tag: Option<String>,
    /// The owner's record, or 0.
    pub record: u64,
}

/// A space at one moment.
pub struct Snapshot<'s> {
    pub(crate) source: &'s dyn Source,
    pub(crate) outline: Outline,
    walk: Walk,
    waiting: Waiting,
    notes: Notes,
    is_settled: bool,
    /// Purges, areas purged, areas in the purge, late frees; and changes of the map.
    pub(crate) counts: [u64; 5],
}

impl<'s> Snapshot<'s> {
    pub(crate) fn take(space: &SpaceView<'s>) -> Result<Self, InspectError> {
        let SpaceView { source, outline, .. } = *space;
        let (memory, walk, version, is_settled) = settled_walk(source, &outline)?;
        let [purges, purged, taken, late] = outline.counts.map(|count| memory.word(count).unwrap_or(0));
        let counts = [purges, purged, taken, late, version / 2];
        let retired = walk.starts.iter().filter(|start| start.is_area && !start.is_busy).count();
        let waiting = waiting::read(&memory, &outline, retired as u64);
        let busy = walk.starts.iter().filter(|start| start.is_area && start.is_busy);
        let notes = notes::read(&memory, &outline, busy.map(|start| start.page));
        Ok(Self { source, outline, walk, waiting, notes, is_settled, counts })
    }

    /// Returns whether the segments are those of one moment. Else the space changed all the time
    /// while it was read, and some were read earlier than others.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns whether all tags and all states of freed areas could be read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.waiting.is_whole && self.notes.is_whole
    }

    /// Returns bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        1 << self.outline.page_shift
    }

    /// Returns the first address of the span, and the one behind its last.
    #[must_use]
    pub fn span(&self) -> [u64; 2] {
        [self.addr(self.outline.first_pages[0]), self.addr(self.walk.end)]
    }

    /// Returns all segments, by address. Neighbours that are free are one.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        (0..self.walk.starts.len()).filter_map(|nth| self.segment(nth))
    }

    /// Returns the number of the segment that holds `addr`.
    pub(crate) fn position(&self, addr: u64) -> Option<usize> {
        let page = addr >> self.outline.page_shift;
        let after = self.walk.starts.partition_point(|start| start.page <= page);
        after.checked_sub(1).filter(|_| page < self.walk.end)
    }

    /// Returns segment number `nth`.
    pub(crate) fn segment(&self, nth: usize) -> Option<Segment> {
        let start = *self.walk.starts.get(nth)?;
        let end = self.walk.starts.get(nth + 1).map_or(self.walk.end, |next| next.page);
        let state = self.state(start);
        let plain = Note { guard_pages: 0, kind: None, ..Note::plain(&self.outline) };
        let note = match state {
            AreaState::Free => plain,
            AreaState::Busy => self.note(start.page),
            _ => Note { guard_pages: self.outline.guard_pages, ..plain },
        };
        let pages = end - start.page;
        let guard_pages = note.guard_pages.min(pages);
        let bytes = self.addr(pages - guard_pages);
        Some(Segment {
            state,
            addr: self.addr(start.page),
            end: self.addr(end),
            bytes,
            guard_bytes: self.addr(guard_pages),
            kind: note.kind.map(|kind| kind.to_string()),
            tag: note.tag,
            record: note.record,
        })
    }

    fn state(&self, start: Start) -> AreaState {
        match start {
            Start { is_area: false, .. } => AreaState::Free,
            Start { is_busy: true, .. } => AreaState::Busy,
            _ => self.waiting.by_page.get(&start.page).copied().unwrap_or(AreaState::Between),
        }
    }

    fn note(&self, page: u64) -> Note {
        self.notes.by_page.get(&page).cloned().unwrap_or_else(|| Note::plain(&self.outline))
    }

    /// Returns the address of page number `page`.
    pub(crate) fn addr(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_bytes())
    }
}

/// Reads the segments until they are those of one moment. Returns what was read of the memory, the
/// version of the map, and whether they are; of a space that changes all the time, the last ones.
fn settled_walk<'s>(
    source: &'s dyn Source,
    outline: &Outline,
) -> Result<(Memory<'s>, Walk, u64, bool), InspectError> {
    let version = outline.bitmaps[1];
    let mut last = Err(InspectError::damaged("its map is never at rest"));
    for _ in 0..ATTEMPTS {
        let memory = Memory::new(source);
        let before = memory.word_now(version)?;
        let found = walk(&memory, outline);
        let after = memory.word_now(version)?;
        let is_settled = before == after && before % 2 == 0;
        // A map that rests is not read again: what is wrong with it stays wrong.
        if is_settled {
            return found.map(|found| (memory, found, after, true));
        }
        if let Err(error @ (InspectError::Ended { .. } | InspectError::TooLarge { .. })) = found {
            return Err(error);
        }
        last = found.map(|found| (memory, found, after, false)).or(last);
    }
    last
}
