//! What stands behind each page of the span, where it is not what the span is made of.
//!
//! # Theory
//! ```text
//!   chunks of the span    │  plain  │ special │  plain  │  plain  │     one bit each
//!                                        │
//!   entries               │ ─ none ─ │ 0 0 f7 f8 f9 0 m m 0 ... │      one word for each page of a special chunk
//! ```
//! A page is **plain** if the kernel keeps it in the mapping of its surroundings. Areas, guard
//! pages and free pages of [`guard`](crate::guard) are plain. Any other page is **special**:
//! - a *frame page* shows a frame of the supply,
//! - a *marked* page is private memory that the kernel keeps in another mapping, since it has
//!   another protection or came from elsewhere,
//! - a *lost* page is no memory of ours: another owner's mapping took its place while it had none,
//!   see [`swap`](crate::os::swap). It stays lost until that mapping has gone.
//!
//! Invariants:
//! - **W1** A special page has an entry that is not 0, in a special chunk. (The converse need not
//!   hold: an entry is written before the mapping is changed, and erased after it was restored, so
//!   that a step that fails leaves nothing unknown behind.)
//! - **W2** A page whose entry is a frame page with a protection leads to that frame, with that
//!   protection.
//! - **W3** With guard marks, a special page is open. (It becomes special after it was opened. And
//!   before it is closed, it is plain.) What lies between special pages is opened before all of it
//!   is replaced.
//!
//! **One call restores the plain state of a page, whatever was done to it:** unmapping puts fresh
//! private memory over all special pages of the range,
//! [`Reservation::replace`](crate::os::reservation::Reservation::replace). After that they are
//! pages like any other, to be marked or made inaccessible. So no other code needs to know of
//! special pages, and for a purge of plain ones a bit of each chunk says that it need not look.
//!
//! An alternative was to leave chunks with frame pages closed, and to restore these with one call
//! less. But then plain areas in the same chunk would have to be guarded by mprotect(2), at two
//! mappings each, and lowest-first placement puts frame pages and areas side by side. Opening a
//! chunk takes 65 µs once, for 2048 pages, of which each frame page costs 4 µs.
//!
//! An entry belongs to the owner of its page, so no lock is needed. Entries are a reservation of a
//! 1024th of the span, made accessible chunk by chunk: strict overcommit and `RLIMIT_DATA` count
//! only those.

use crate::error::{platform_error, protect_error};
use crate::guard::chunks::{CHUNK_PAGES, ChunkState, Chunks};
use crate::os::reservation::{Access, Mapping};
use crate::page_size::page_bytes;
use rustix::io::Errno;
use rustix::mm::munmap;
use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use vmalloc::{Frame, PageRange, PlatformError};

/// The state of a page, in a word: three bits of kind, and 29 of a frame or of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u32);

impl Entry {
    /// Zero, as fresh entries are.
    pub(crate) const PLAIN: Self = Self(0);

    const KIND_BITS: u32 = 3;
    /// Above it another kind, which tells the protection, and above that the number of a mapping.
    const MARK: u32 = 1;
    const READ_WRITE: u32 = 2;
    const READ: u32 = 3;
    const READ_EXECUTE: u32 = 4;
    /// A frame page or marked page whose protection is not known.
    const UNSURE: u32 = 5;

    /// The entry of a lost page. No change of access makes it another one.
    pub(crate) const LOST: Self = Self(6);

    /// Returns the entry of a frame page. The frame is below
    /// [`FRAMES_MAX`](crate::means::FRAMES_MAX).
    pub(crate) fn frame_page(frame: Frame, access: Access) -> Self {
        Self((frame.0 as u32) << Self::KIND_BITS | Self::kind_of(access))
    }

    /// Returns the entry of private memory with this protection. `number` tells apart the mappings
    /// that an area was moved in; 0 is for pages that were not moved.
    fn marked(access: Access, number: u32) -> Self {
        Self((number << Self::KIND_BITS | Self::kind_of(access)) << Self::KIND_BITS | Self::MARK)
    }

    fn kind_of(access: Access) -> u32 {
        match access {
            Access::ReadWrite => Self::READ_WRITE,
            Access::Read => Self::READ,
            Access::ReadExecute => Self::READ_EXECUTE,
            Access::None => Self::UNSURE,
        }
    }

    fn kind(self) -> u32 {
        self.0 & ((1 << Self::KIND_BITS) - 1)
    }

    fn number(self) -> u32 {
        if self.kind() == Self::MARK { self.0 >> (2 * Self::KIND_BITS) } else { 0 }
    }

    /// Returns the protection of a page that is mapped and no frame page; `None` where it is not
    /// known.
    pub(crate) fn private_access(self) -> Option<Access> {
        let known = [Access::ReadWrite, Access::Read, Access::ReadExecute];
        match self.kind() {
            _ if self == Self::PLAIN => Some(Access::ReadWrite),
            Self::MARK => known.into_iter().find(|access| self == Self::marked(*access, self.number())),
            _ => None,
        }
    }

    /// Returns the entry of such a page after it was moved, with its protection, in mapping
    /// `number`, not 0.
    pub(crate) fn moved(self, number: u32) -> Self {
        Self::marked(self.private_access().unwrap_or(Access::None), number)
    }

    /// Returns the frame of a frame page.
    pub(crate) fn frame(self) -> Option<Frame> {
        let is_frame = (Self::READ_WRITE..=Self::UNSURE).contains(&self.kind());
        is_frame.then(|| Frame((self.0 >> Self::KIND_BITS).into()))
    }

    /// Returns the entry for the time while the protection is being changed.
    pub(crate) fn unsure(self) -> Self {
        self.protected(Access::None)
    }

    /// Returns the entry with another protection.
    pub(crate) fn protected(self, access: Access) -> Self {
        match self.frame() {
            Some(frame) => Self::frame_page(frame, access),
            None if self == Self::LOST => self,
            None => Self::marked(access, self.number()),
        }
    }

    /// Returns true if the kernel keeps two neighbours like these in one mapping. That is certain
    /// for all but unsure and marked ones.
    pub(crate) fn joins(self, next: Self) -> bool {
        match (self.frame(), next.frame()) {
            (Some(frame), Some(following)) => self.kind() == next.kind() && following == frame.plus(1),
            _ => self == next,
        }
    }
}

/// The entries of a span.
#[derive(Debug)]
pub(crate) struct Table {
    span: PageRange,
    /// A bit for each chunk, as for guards: here *open* stands for special.
    special: Chunks,
    /// Where the entries are reserved. Null until that could be done: then nothing is special.
    entries: AtomicPtr<AtomicU32>,
    /// True once a page was lost.
    has_lost: AtomicBool,
    /// True once a part of the entries was given up: the rest stays mapped for ever.
    is_cut: AtomicBool,
}

impl Table {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        let table = Self {
            span,
            special: Chunks::new(span)?,
            entries: AtomicPtr::default(),
            has_lost: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        };
        // A refusal may be for the moment: the first page to become special asks again.
        let _ = table.reserve();
        Ok(table)
    }

    /// Returns how many bytes of addresses the entries take.
    fn bytes(&self) -> Option<usize> {
        usize::try_from(self.span.len()).ok()?.checked_mul(size_of::<AtomicU32>())
    }

    /// Returns the reservation of the entries, if it is there.
    fn reserved(&self) -> Option<ManuallyDrop<Mapping>> {
        // Acquire: pairs with the Release of the thread that has reserved them.
        let base = NonNull::new(self.entries.load(Ordering::Acquire))?;
        // SAFETY: `reserve` has left a mapping of these bytes to this table alone.
        unsafe { Mapping::of_kernel(base.as_ptr().cast(), self.bytes()?) }.ok().map(ManuallyDrop::new)
    }

    /// Returns the reservation of the entries, and makes it if it is not there.
    fn reserve(&self) -> Result<ManuallyDrop<Mapping>, Errno> {
        if self.reserved().is_none() {
            let made = Mapping::new(self.bytes().ok_or(Errno::NOMEM)?, Access::None)?;
            let (none, base) = (ptr::null_mut(), made.base().cast().as_ptr());
            // Release: a thread that sees the address finds the mapping. The second of two threads
            // gives its own back.
            if self.entries.compare_exchange(none, base, Ordering::Release, Ordering::Relaxed).is_ok() {
                mem::forget(made);
            }
        }
        self.reserved().ok_or(Errno::NOMEM)
    }

    /// Returns true if some page of the span was ever lost.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        // Relaxed: a range with lost pages comes to its next owner from the one that lost them.
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Notes that `range`, which was prepared, is another owner's.
    #[cold]
    pub(crate) fn note_lost(&self, range: PageRange) {
        self.has_lost.store(true, Ordering::Relaxed);
        self.update(range, |_, _| Entry::LOST);
    }

    /// Returns true if `range` has no special page. It reads a bit a chunk, so it may return false
    /// for a chunk that had some.
    #[inline]
    pub(crate) fn is_plain(&self, range: PageRange) -> bool {
        self.special.is_closed(range)
    }

    /// Returns true if all of `range` was prepared.
    #[inline]
    pub(crate) fn is_special(&self, range: PageRange) -> bool {
        self.special.is_open(range)
    }

    /// Makes room for entries of `range`. The chunks are special from then on.
    pub(crate) fn prepare(&self, range: PageRange) -> Result<(), PlatformError> {
        if self.is_special(range) {
            return Ok(());
        }
        let entries = self.reserve().map_err(|errno| platform_error("mmap of a page table", errno))?;
        for run in self.special.runs(self.special.round_out(range), ChunkState::Closed) {
            let (offset, len) = (run.start() - self.span.start(), run.len());
            let word = size_of::<AtomicU32>();
            // Two threads may do this for one chunk: it is the same twice.
            entries.open_part(offset as usize * word, len as usize * word).map_err(protect_error)?;
            self.special.set(run, ChunkState::Open);
        }
        Ok(())
    }

    /// Returns the entry of `page`.
    pub(crate) fn get(&self, page: u64) -> Entry {
        let plain = PageRange::from_len(page, 1)
            .is_none_or(|range| !self.span.covers(&range) || self.special.is_closed(range));
        if plain { Entry::PLAIN } else { self.load(page) }
    }

    /// Returns the entries of `range`, which was prepared, with their pages.
    pub(crate) fn entries(
        &self,
        range: PageRange,
    ) -> impl DoubleEndedIterator<Item = (u64, Entry)> + ExactSizeIterator {
        let first = range.start();
        self.words(range).iter().enumerate().map(move |(index, word)| {
            // Relaxed: the owner of the page alone changes it.
            (first + index as u64, Entry(word.load(Ordering::Relaxed)))
        })
    }

    /// Changes the entries of `range`, which was prepared.
    pub(crate) fn update(&self, range: PageRange, mut change: impl FnMut(u64, Entry) -> Entry) {
        for (index, word) in self.words(range).iter().enumerate() {
            let old = Entry(word.load(Ordering::Relaxed));
            // Relaxed: as above.
            word.store(change(range.start() + index as u64, old).0, Ordering::Relaxed);
        }
    }

    /// Returns how many pages of `range` are surely in another mapping than the page before.
    pub(crate) fn borders(&self, range: PageRange) -> u64 {
        let mut last = self.get(range.start());
        let pages = range.start() + 1..range.end();
        pages.filter(|page| !mem::replace(&mut last, self.get(*page)).joins(last)).count() as u64
    }

    /// Returns the shortest parts of `range` that hold all its special pages, one for each run of
    /// special chunks.
    pub(crate) fn hulls(&self, range: PageRange) -> impl Iterator<Item = PageRange> {
        self.special.runs(range, ChunkState::Open).filter_map(|run| {
            let mut special =
                self.entries(run).filter(|(_, entry)| *entry != Entry::PLAIN).map(|(page, _)| page);
            let first = special.next()?;
            PageRange::new(first, special.next_back().unwrap_or(first) + 1)
        })
    }

    /// Notes that `range` has no special page. Its whole chunks are plain from then on.
    pub(crate) fn forget(&self, range: PageRange) {
        if let Some(chunks) = self.special.round_in(range) {
            self.special.set(chunks, ChunkState::Closed);
        }
    }

    /// Unmaps the entries of `range`, which is no part of the span any more. Pages with other
    /// entries beside them stay.
    pub(crate) fn give_up(&self, range: PageRange) {
        let Some(entries) = self.reserved() else { return };
        let (page, word) = (page_bytes(), size_of::<AtomicU32>());
        let place = |at: u64| (at - self.span.start()) as usize * word;
        let (start, end) = (place(range.start()).next_multiple_of(page), place(range.end()) / page * page);
        if start < end {
            // Relaxed: the drop has the table for itself.
            self.is_cut.store(true, Ordering::Relaxed);
            // SAFETY: whole pages of our own mapping, with entries that no thread asks for.
            let _ = unsafe { munmap(entries.base().as_ptr().wrapping_byte_add(start), end - start) };
        }
    }

    fn load(&self, page: u64) -> Entry {
        PageRange::from_len(page, 1)
            .and_then(|range| self.words(range).first())
            .map_or(Entry::PLAIN, |word| Entry(word.load(Ordering::Relaxed)))
    }

    /// Returns the words of `range`, whose chunks are special.
    fn words(&self, range: PageRange) -> &[AtomicU32] {
        debug_assert!(self.special.is_open(range), "{range:?} has no entries");
        // Relaxed: a special chunk has been prepared, and its bit orders that.
        let Some(entries) = NonNull::new(self.entries.load(Ordering::Relaxed)) else { return &[] };
        let first = (range.start() - self.span.start()) as usize;
        // SAFETY: `new` mapped room for an entry for each page of the span, zeroed and aligned.
        // `prepare` has made these accessible before it called their chunks special (Release and
        // Acquire in `guard::chunks`). The mapping lives as long as `self`, and all access to it is
        // atomic, through here.
        unsafe { std::slice::from_raw_parts(entries.as_ptr().add(first), range.len() as usize) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !*self.is_cut.get_mut() {
            self.reserved().map(ManuallyDrop::into_inner).into_iter().for_each(drop);
        }
    }
}

/// An entry takes as much of the reservation as the theory says.
const _: () = assert!(size_of::<AtomicU32>() * CHUNK_PAGES as usize == 8192);

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(PageRange::from_len(77, 20 * CHUNK_PAGES + 5).unwrap()).unwrap()
    }

    fn pages(offset: u64, len: u64) -> PageRange {
        PageRange::from_len(77 + offset, len).unwrap()
    }

    #[test]
    fn an_entry_keeps_its_frame_and_tells_protections_apart() {
        let last = Frame(crate::means::FRAMES_MAX - 1);
        let all = [Access::ReadWrite, Access::Read, Access::ReadExecute];
        for access in all {
            let entry = Entry::frame_page(last, access);
            assert_eq!(entry.frame(), Some(last));
            assert_eq!(entry.unsure().frame(), Some(last));
            for other in all {
                assert_eq!(entry == Entry::frame_page(last, other), access == other);
                assert_eq!(entry.unsure().protected(other), Entry::frame_page(last, other));
                let next = Entry::frame_page(Frame(8), other);
                assert_eq!(Entry::frame_page(Frame(7), access).joins(next), access == other);
                assert!(!Entry::frame_page(Frame(9), access).joins(next));
            }
        }
        let marked = Entry::PLAIN.unsure();
        assert_eq!((Entry::PLAIN.frame(), marked.frame()), (None, None));
        assert!(Entry::PLAIN.joins(Entry::PLAIN) && !Entry::PLAIN.joins(marked));
    }

    #[test]
    fn marks_tell_mappings_and_protections_apart() {
        let all = [Access::ReadWrite, Access::Read, Access::ReadExecute];
        assert_eq!(Entry::PLAIN.private_access(), Some(Access::ReadWrite));
        assert_eq!((Entry::PLAIN.unsure().private_access(), Entry::PLAIN.unsure().number()), (None, 0));
        assert_eq!(Entry::frame_page(Frame(1), Access::Read).private_access(), None);
        for access in all {
            let protected = Entry::PLAIN.protected(access);
            assert_eq!((protected.private_access(), protected.frame()), (Some(access), None));
            let moved = protected.moved(3);
            assert_eq!((moved.private_access(), moved.number(), moved.frame()), (Some(access), 3, None));
            assert_ne!(moved, protected.moved(2));
            assert_ne!(moved, protected);
            assert_eq!((moved.unsure().private_access(), moved.unsure().number()), (None, 3));
            for other in all {
                assert_eq!(moved.unsure().protected(other) == moved, access == other);
            }
        }
    }

    #[test]
    fn everything_is_plain_until_it_is_prepared_and_noted() {
        let table = table();
        assert!(table.is_plain(table.span));
        assert_eq!(table.get(77), Entry::PLAIN);
        let over = pages(CHUNK_PAGES - 1, 2);
        table.prepare(over).unwrap();
        assert!(!table.is_plain(over) && table.is_plain(pages(2 * CHUNK_PAGES, 9)));
        assert_eq!(table.hulls(table.span).count(), 0);
        table.update(over, |page, _| Entry::frame_page(Frame(page), Access::Read));
        assert_eq!(table.get(over.start() + 1).frame(), Some(Frame(over.start() + 1)));
        let last = pages(20 * CHUNK_PAGES + 4, 1);
        table.prepare(last).unwrap();
        table.update(last, |_, old| old.unsure());
        assert_eq!(table.hulls(table.span).collect::<Vec<_>>(), [over, last]);
        assert_eq!(table.hulls(pages(CHUNK_PAGES, 9)).collect::<Vec<_>>(), [pages(CHUNK_PAGES, 1)]);
        table.update(over, |_, _| Entry::PLAIN);
        table.forget(pages(0, 2 * CHUNK_PAGES - 1));
        assert!(table.is_plain(pages(0, CHUNK_PAGES)) && !table.is_plain(pages(CHUNK_PAGES, 1)));
    }
}
