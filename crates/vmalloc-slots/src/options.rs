//! Options of a pool, and their check: sizes in pages from here on.

use crate::batch::{BATCH, LEAST_BATCH};
use crate::error::SlotsError;
use vmalloc::{Geometry, setters};

/// The fate of memory beyond the head when a slot is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BeyondHead {
    /// It is decommitted, in a batch: a slot that is handed out has its head, and traps beyond.
    #[default]
    Decommit,
    /// It stays committed: a slot that is handed out may have more than its head.
    Commit,
}

/// Options of a pool of slots. Each field has a builder of the same name. Sizes are rounded up to
/// whole pages.
///
/// ```
/// use vmalloc_slots::SlotsOptions;
///
/// let wasm = SlotsOptions::new(4 << 30).head_bytes(64 << 10).guard_after_bytes(32 << 20);
/// assert_eq!(wasm.max_slots, 65_536);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use]
pub struct SlotsOptions {
    /// Bytes of a slot: how far it can grow. On Linux each slot of 64 MiB or more takes two of the
    /// mappings that the program may have (`vm.max_map_count`, 65,530 by default): some 28,000 of
    /// them are the most.
    pub slot_bytes: usize,
    /// Bytes that are committed when a slot is handed out. 0 is allowed. Default: 64 KiB, the page
    /// of WebAssembly, or the slot if it is smaller.
    pub head_bytes: usize,
    /// Bytes in front of the slot that trap. Slots of 64 MiB or more begin at a multiple of 8 MiB,
    /// so it is rounded up to that for them. Default: one page.
    pub guard_before_bytes: usize,
    /// Bytes behind the slot that trap. Default: one page.
    pub guard_after_bytes: usize,
    /// The most slots at once, 1 to 2³¹. Their metadata is 65 bytes each, touched on first use.
    /// Default: 65,536.
    pub max_slots: usize,
    /// Bytes of memory that one free slot may keep, full of zeros. 0 drops all memory of a freed
    /// slot. Default: 1 MiB. Clearing costs 50 to 70 ns a page up to 4 MiB, and 120 ns at 16 MiB;
    /// dropping and using again costs 2 µs (`memory -- slots`). So time alone sets no bound: this
    /// one is for memory, and for the caches, of which a core here has 1 MiB.
    pub keep_bytes: usize,
    /// Bytes of memory that all free slots together may keep. As much again may wait to be reset.
    /// Default: 64 MiB.
    pub resident_bytes: usize,
    /// The fate of memory beyond the head. Default: it is decommitted.
    pub beyond_head: BeyondHead,
}

impl SlotsOptions {
    /// Returns the default options, for slots of `slot_bytes` bytes.
    pub const fn new(slot_bytes: usize) -> Self {
        Self {
            slot_bytes,
            head_bytes: if slot_bytes < 64 << 10 { slot_bytes } else { 64 << 10 },
            guard_before_bytes: 1,
            guard_after_bytes: 1,
            max_slots: 1 << 16,
            keep_bytes: 1 << 20,
            resident_bytes: 64 << 20,
            beyond_head: BeyondHead::Decommit,
        }
    }

    setters! {
        /// Sets [`head_bytes`](Self::head_bytes).
        head_bytes(bytes: usize) { head_bytes = bytes }
        /// Sets [`guard_before_bytes`](Self::guard_before_bytes).
        guard_before_bytes(bytes: usize) { guard_before_bytes = bytes }
        /// Sets [`guard_after_bytes`](Self::guard_after_bytes).
        guard_after_bytes(bytes: usize) { guard_after_bytes = bytes }
        /// Sets [`max_slots`](Self::max_slots).
        max_slots(slots: usize) { max_slots = slots }
        /// Sets [`keep_bytes`](Self::keep_bytes).
        keep_bytes(bytes: usize) { keep_bytes = bytes }
        /// Sets [`resident_bytes`](Self::resident_bytes).
        resident_bytes(bytes: usize) { resident_bytes = bytes }
        /// Sets [`beyond_head`](Self::beyond_head).
        beyond_head(beyond: BeyondHead) { beyond_head = beyond }
    }

    /// Checks the options for a machine, and returns the sizes in pages.
    pub(crate) fn check(&self, geometry: &Geometry) -> Result<Layout, SlotsError> {
        let (slot, head) = (self.slot_bytes, self.head_bytes);
        if slot == 0 {
            return Err(SlotsError::ZeroSize);
        }
        if head > slot {
            return Err(SlotsError::HeadBeyondSlot { head, slot });
        }
        if !(1..=MOST_SLOTS).contains(&self.max_slots) {
            return Err(SlotsError::BadCount { slots: self.max_slots });
        }
        let shift = geometry.page_shift;
        let pages = |bytes: usize| (bytes as u64).div_ceil(1 << shift);
        let before = pages(self.guard_before_bytes);
        let is_large = before + pages(slot) + pages(self.guard_after_bytes) >= pages(LARGE_BYTES);
        let align = if is_large { pages(ALIGN_BYTES) } else { 1 };
        let layout = Layout {
            shift,
            align,
            before: before.next_multiple_of(align),
            head: pages(head),
            slot: pages(slot),
            after: pages(self.guard_after_bytes),
            keep: (self.keep_bytes >> shift) as u64,
            batch: (self.max_slots / 4).clamp(LEAST_BATCH, BATCH),
        };
        let (guards, span) = (self.guard_before_bytes.saturating_add(self.guard_after_bytes), geometry.span);
        // No sum of three numbers of pages overflows: each is below 2^58.
        if layout.pages() > span.len() {
            return Err(SlotsError::BeyondSpan { slot, guards, span: span.len() << shift });
        }
        Ok(layout)
    }
}

/// The size from which on slots are aligned, with their guards.
const LARGE_BYTES: usize = 64 << 20;
/// The alignment of large slots, and of the areas that they are in. So no two slots share a page
/// table, huge pages fit into a head, and a platform that prepares addresses in parts of this size
/// (`CHUNK_PAGES` on Linux) can undo it when a slot is given back: two mappings for each slot.
const ALIGN_BYTES: usize = 8 << 20;
/// The most slots: an index and a key share a word, see `recent`.
const MOST_SLOTS: usize = 1 << 31;

/// The sizes of a slot, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) shift: u32,
    /// The alignment of the area, which the guard in front of the slot keeps.
    pub(crate) align: u64,
    pub(crate) before: u64,
    pub(crate) head: u64,
    pub(crate) slot: u64,
    pub(crate) after: u64,
    /// Pages of memory that a free slot may keep.
    pub(crate) keep: u64,
    /// Slots that are reset together: a quarter of them, so that a small pool has others to hand
    /// out, and 64 at most.
    pub(crate) batch: usize,
}

impl Layout {
    /// Returns the pages of a slot with its guards.
    pub(crate) fn pages(&self) -> u64 {
        self.before + self.slot + self.after
    }

    /// Returns the bytes of so many pages of a slot.
    pub(crate) fn bytes(&self, pages: u64) -> usize {
        (pages << self.shift) as usize
    }

    /// Returns the pages that hold so many bytes.
    pub(crate) fn pages_of(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(1 << self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc::PageRange;

    fn check(options: SlotsOptions) -> Result<Layout, SlotsError> {
        options.check(&Geometry::new(PageRange::new(0x10, 0x1010).unwrap(), 12, 2))
    }

    #[test]
    fn sizes_are_rounded_up_to_pages() {
        let options = SlotsOptions::new(100_000).head_bytes(5000).guard_before_bytes(0).keep_bytes(8191);
        let layout = check(options).unwrap();
        assert_eq!((layout.before, layout.head, layout.slot, layout.after), (0, 2, 25, 1));
        assert_eq!((layout.pages(), layout.keep, layout.bytes(3), layout.pages_of(4097)), (26, 1, 12_288, 2));
    }

    #[test]
    fn large_slots_are_aligned_with_their_guards() {
        let geometry = Geometry::new(PageRange::new(0x10, 1 << 30).unwrap(), 12, 2);
        let large = SlotsOptions::new(1 << 30).guard_before_bytes(1).check(&geometry).unwrap();
        assert_eq!((large.align, large.before, large.after), (2048, 2048, 1));
        let bare = SlotsOptions::new(1 << 30).guard_before_bytes(0).check(&geometry).unwrap();
        assert_eq!((bare.align, bare.before), (2048, 0));
        let small = SlotsOptions::new((64 << 20) - 12_288).check(&geometry).unwrap();
        assert_eq!((small.align, small.before), (1, 1));
    }

    #[test]
    fn wrong_options_are_typed_errors() {
        assert_eq!(check(SlotsOptions::new(0)), Err(SlotsError::ZeroSize));
        let beyond = SlotsError::HeadBeyondSlot { head: 5001, slot: 5000 };
        assert_eq!(check(SlotsOptions::new(5000).head_bytes(5001)), Err(beyond));
        assert!(check(SlotsOptions::new(5000).head_bytes(0)).is_ok());
        for slots in [0, MOST_SLOTS + 1] {
            assert_eq!(check(SlotsOptions::new(1).max_slots(slots)), Err(SlotsError::BadCount { slots }));
        }
    }

    #[test]
    fn a_slot_may_fill_the_span_with_its_guards_and_no_more() {
        let options = SlotsOptions::new(0xffe << 12).guard_before_bytes(1).guard_after_bytes(1);
        assert!(check(options).is_ok());
        let (slot, span) = ((0xffe << 12) + 1, 0x1000 << 12);
        let beyond = SlotsError::BeyondSpan { slot, guards: 2, span };
        assert_eq!(check(SlotsOptions { slot_bytes: slot, ..options }), Err(beyond));
        let huge = SlotsOptions::new(usize::MAX).guard_before_bytes(usize::MAX).guard_after_bytes(usize::MAX);
        let beyond = SlotsError::BeyondSpan { slot: usize::MAX, guards: usize::MAX, span };
        assert_eq!(check(huge), Err(beyond));
    }
}
