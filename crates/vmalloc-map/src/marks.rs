//! The marks of a leaf that tell where an area may have an annotation.

use super::leaf::{ANNOTATION_ENTERED, ANNOTATION_PAGES, Leaf};
use crate::sync::fence;
use core::sync::atomic::Ordering::Release;

/// The word of a leaf that tells of annotations, as it was at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnnotationMarks(u64);

impl AnnotationMarks {
    /// Returns true if the area that starts at `page`, or one within the same [`ANNOTATION_PAGES`],
    /// may have an annotation.
    #[inline(always)]
    pub(super) fn may_be_annotated(self, page: u64) -> bool {
        self.0 >> (Leaf::bit(page) / ANNOTATION_PAGES as u32) & 1 != 0
    }
}

impl Leaf {
    /// Returns true if the area at `page`, or one that starts within the same [`ANNOTATION_PAGES`]
    /// pages, may have an annotation.
    #[inline(always)]
    pub fn may_be_annotated(&self, page: u64) -> bool {
        AnnotationMarks(self.annotations.get()).may_be_annotated(page)
    }

    /// Reads the marks of annotations, before `Version::before` or after `Version::is_still`, whose
    /// fences order it. A reader that saw a mark cleared before then sees that the annotated area
    /// is no longer busy. A reader that saw an area busy sees its mark after.
    #[inline(always)]
    pub(super) fn annotation_marks(&self) -> AnnotationMarks {
        AnnotationMarks(self.annotations.get())
    }

    /// Marks the annotation of the area at `page`. The caller holds the annotation's table, and
    /// makes the area busy afterwards.
    pub fn annotation_entered(&self, page: u64) {
        let mark = 1 << (Self::bit(page) / ANNOTATION_PAGES as u32);
        self.annotations.update(|word| (word | mark).wrapping_add(ANNOTATION_ENTERED));
        // Release: pairs with the Acquire of `Version::is_still`: a reader that finds the area
        // busy sees its mark.
        fence(Release);
    }

    /// Clears the mark of annotations around `page`. The caller holds the table of the last of
    /// them, and its area is busy no more.
    pub fn annotations_left(&self, page: u64) {
        let mark = 1 << (Self::bit(page) / ANNOTATION_PAGES as u32);
        self.annotations.update(|word| word & !mark);
    }
}
