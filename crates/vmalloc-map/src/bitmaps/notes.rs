//! Notes: what is known of an area beyond its pages, as two words for the page that it starts at.
//!
//! ```text
//!   leaf of 256 pages │ noted? │ ──yes──► │ note │ note │ …        4 KiB, made for the first note there
//! ```
//!
//! - **NOTE-1** A page has a note only while an area starts there that is claimed or busy. Its
//!   owner writes the note before the area is busy, and takes it when it is busy no more, before
//!   the area is in any list.
//! - **NOTE-2** A leaf is noted before the first note there, and as long as it is one.
//!
//! So the owner of an area reads and writes its note without a lock, and where no leaf is noted
//! nothing is read at all.

use super::{Bitmaps, Look, Unclear};
use crate::PageRange;
use crate::bitmap::LEAF_PAGES;
use crate::cell::Long;
use crate::leaf::Leaf;
use crate::metadata::OutOfMemory;
use crate::row_array::RowArray;
use crate::shared::try_zeroed;
use crate::sync::fence;
use core::sync::atomic::Ordering::{Acquire, Release};
use zerocopy::{FromBytes, IntoBytes};

/// A note: empty where both words are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// A word of the owner's.
    pub record: u64,
    /// The facts that are not usual, as its space encodes them.
    pub facts: u64,
}

/// The place of the note of a page.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
pub struct NoteSlot {
    record: Long,
    facts: Long,
}

/// The notes of all pages: a row for each leaf.
pub(crate) type Notes<'m> = RowArray<'m, NoteSlot, { LEAF_PAGES as usize }>;

/// The bit of [`Leaf::notes`] that says that there may be notes: the sign, which takes one
/// instruction to look at.
const NOTED: u64 = 1 << 63;

impl NoteSlot {
    /// Returns the note of the caller's area.
    #[inline]
    pub fn get(&self) -> Note {
        Note { record: self.record.get(), facts: self.facts.get() }
    }

    #[inline]
    fn set(&self, note: Note) {
        self.record.set(note.record);
        self.facts.set(note.facts);
    }

    /// Takes the note of an area that the caller has just retired.
    #[inline]
    pub fn take(&self) -> Note {
        // Release: a reader that misses the note sees that the area is not busy.
        fence(Release);
        let note = self.get();
        self.set(Note::default());
        note
    }

    /// Enters the note of a claimed area, which becomes busy afterwards, or of the caller's.
    #[inline]
    pub(super) fn enter(&self, leaf: &Leaf, note: Note) {
        leaf.note_entered();
        self.set(note);
        // Release: a reader that finds the area busy sees its note.
        fence(Release);
    }
}

/// The word of a leaf that tells of notes, as it was at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted(u64);

impl Noted {
    #[inline(always)]
    pub(super) fn is_noted(self) -> bool {
        (self.0 as i64) < 0
    }
}

impl Leaf {
    /// Returns true if an area that starts in this leaf may have a note.
    #[inline(always)]
    pub fn is_noted(&self) -> bool {
        self.noted().is_noted()
    }

    /// Reads whether there are notes, before `Version::before` or after `Version::is_still`, whose
    /// fences order it. Where both are equal no note was entered in between.
    #[inline(always)]
    pub(super) fn noted(&self) -> Noted {
        Noted(self.notes.get())
    }

    /// Begins without notes. The count goes on, for readers that remember it from before.
    pub(crate) fn begin_notes(&self) {
        self.notes.set((self.notes.get() & !NOTED) + 1);
    }

    /// Says that a note is entered here, or an annotation elsewhere. The caller makes the area busy
    /// afterwards.
    #[inline]
    pub fn note_entered(&self) {
        if !self.is_noted() {
            self.notes.fetch_or(NOTED);
        }
        self.notes.add(1);
        // Release: a reader that sees the note, or finds the area busy, sees the count.
        fence(Release);
    }
}

impl Bitmaps<'_> {
    /// Returns the place of the note of `page`.
    #[inline]
    fn slot(&self, page: u64) -> Option<&NoteSlot> {
        let (notes, index) = (self.notes.get()?, usize::try_from(page.wrapping_sub(self.base)).ok()?);
        notes.near_row(index).or_else(|| notes.get(index))
    }

    /// Makes sure that there is a place for a note of `page`. Takes memory, at most 4 KiB in most
    /// cases.
    pub fn reach_note(&self, page: u64) -> Result<(), OutOfMemory> {
        if self.slot(page).is_some() {
            return Ok(());
        }
        let notes = self.notes.get_or_try_init(try_zeroed)?;
        notes.reach(usize::try_from(page.wrapping_sub(self.base)).map_err(|_| OutOfMemory)?)
    }

    /// Returns the place of the note of `page`, in `leaf`, if there may be one.
    #[inline]
    pub fn note_slot(&self, leaf: &Leaf, page: u64) -> Option<&NoteSlot> {
        if leaf.is_noted() { self.slot(page) } else { None }
    }

    /// Returns the note of the caller's area that starts at `page`, in `leaf`.
    #[inline]
    pub fn note(&self, leaf: &Leaf, page: u64) -> Note {
        self.note_slot(leaf, page).map_or(Note::default(), NoteSlot::get)
    }

    /// Enters the note of the caller's area that starts at `page`, in `leaf`: before it is busy, or
    /// in place of another note. Returns false, and changes nothing, where there is no
    /// [place](Self::reach_note) for it.
    #[inline(always)]
    pub fn enter_note(&self, leaf: &Leaf, page: u64, note: Note) -> bool {
        self.slot(page).map(|slot| slot.enter(leaf, note)).is_some()
    }

    /// Takes the note of the area that starts at `page`, in `leaf`, which the caller has just
    /// retired.
    #[inline]
    pub fn take_note(&self, leaf: &Leaf, page: u64) -> Note {
        self.note_slot(leaf, page).map_or(Note::default(), NoteSlot::take)
    }

    /// Reads the note of `area` with it. No note was entered since `before` was read, and the area
    /// was busy after that. So a note that is there twice is that of the area which is busy in
    /// between: another one would have entered its own. And where there is none twice, the area has
    /// none: its note would be there for as long as it is busy.
    #[inline(never)]
    pub(super) fn look_noted(
        &self,
        area: PageRange,
        first: &Leaf,
        before: Noted,
        version: u64,
    ) -> Result<Look, Unclear> {
        let slot = self.slot(area.start()).ok_or(Unclear)?;
        let note = slot.get();
        // Acquire, here and below: pairs with the Release of `enter` and `take`.
        fence(Acquire);
        let is_busy = first.is_busy(Leaf::bit(area.start())) && self.version.is_still(version);
        let is_same = is_busy && slot.get() == note;
        fence(Acquire);
        match is_same && first.noted() == before {
            true if note == Note::default() => Ok(Look::Plain(area)),
            true => Ok(Look::Noted(area, note)),
            false => Err(Unclear),
        }
    }
}
