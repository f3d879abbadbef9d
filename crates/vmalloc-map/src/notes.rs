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

use super::bitmap::LEAF_PAGES;
use super::cell::Long;
use super::leaf::Leaf;
use super::row_array::RowArray;
use crate::sync::fence;
use core::sync::atomic::Ordering::{Acquire, Release};
use zerocopy::{FromBytes, IntoBytes};

/// A note: empty where both words are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// A word of the owner's.
    pub record: u64,
    /// What is not usual about the area, as its space encodes it.
    pub facts: u64,
}

/// The place of a note.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct Slot {
    record: Long,
    facts: Long,
}

/// The notes of all pages: a row for each leaf.
pub(crate) type Notes<'m> = RowArray<'m, Slot, { LEAF_PAGES as usize }>;

/// The bit of [`Leaf::notes`] that says that there may be notes: the sign, which takes one
/// instruction to look at.
const NOTED: u64 = 1 << 63;

impl Slot {
    #[inline]
    pub(super) fn get(&self) -> Note {
        Note { record: self.record.get(), facts: self.facts.get() }
    }

    #[inline]
    fn set(&self, note: Note) {
        self.record.set(note.record);
        self.facts.set(note.facts);
    }

    /// Takes the note of an area that has just been retired.
    #[inline]
    pub(super) fn take(&self) -> Note {
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
    pub(super) fn begin_notes(&self) {
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

/// Orders what was read of a note before what is read next.
#[inline]
pub(super) fn after_note() {
    // Acquire: pairs with the Release of `enter` and `take`.
    fence(Acquire);
}
