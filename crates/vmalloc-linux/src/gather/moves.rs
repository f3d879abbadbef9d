//! Moving pages to an area, and copying those that can't be moved.

use super::error::refusal;
use super::{GatherArea, GatherError, Gathered};
use crate::fork::{hooks, locks};
use crate::guard::Guarding;
use crate::os::madvise::{Advice, advise};
use crate::os::map_count::{BUDGET, SPLIT};
use crate::os::userfaultfd::{Holes, Mode, Range, Stuck, Userfaultfd};
use crate::platform::Linux;
use libc::iovec;
use rustix::io::Errno;
use std::ptr;
use vmalloc::{Discard, PageRange, SpaceRef};

impl<S: SpaceRef<Platform = Linux>> GatherArea<S> {
    /// Gathers `pages` pages that follow each other. On an error, says how many it has gathered.
    ///
    /// # Safety
    /// As for [`gather_leaving`](Self::gather_leaving); the places in the area are empty.
    pub(super) unsafe fn take_run(
        &mut self,
        at: usize,
        from: usize,
        pages: usize,
        leave: Leave,
        gathered: &mut Gathered,
    ) -> Result<(), (usize, GatherError)> {
        let page_bytes = self.page_bytes();
        let (mut done, mut most, mut dropped) = (0, pages, None);
        while done < pages {
            let asked = most.min(pages - done);
            // SAFETY: the caller's promise is passed on.
            let (moved, stuck) = unsafe { self.move_some(at + done, from + done * page_bytes, asked, leave) };
            (done, gathered.moved) = (done + moved, gathered.moved + moved);
            let copied = match stuck {
                None => 0,
                Some(Errno::NOSYS) => asked,
                Some(Errno::BUSY | Errno::AGAIN) => 1,
                // The kernel refuses ranges of several mappings as a whole.
                Some(Errno::INVAL | Errno::NOENT) if asked > 1 => {
                    most = 1;
                    0
                }
                // A touch of an empty page of the area has put memory there.
                Some(Errno::EXIST) if dropped != Some(done) => {
                    dropped = Some(done);
                    self.drop_page(at + done);
                    0
                }
                Some(errno) => return Err((done, refusal(from + done * page_bytes, errno))),
            };
            // SAFETY: the caller's promise is passed on.
            unsafe { copy(from + done * page_bytes, self.page_ptr(at + done), copied * page_bytes, leave) };
            (done, gathered.copied) = (done + copied, gathered.copied + copied);
        }
        Ok(())
    }

    /// Moves pages that follow each other by one call. Returns how many, and the error that ended
    /// that; `NOSYS` where all are to be copied.
    ///
    /// # Safety
    /// As for [`take_run`](Self::take_run).
    unsafe fn move_some(
        &mut self,
        at: usize,
        from: usize,
        pages: usize,
        leave: Leave,
    ) -> (usize, Option<Errno>) {
        let Some(registered) = self.registered.as_ref().filter(|_| leave == Leave::Nothing) else {
            return (0, Some(Errno::NOSYS));
        };
        let (start, page_bytes) = (self.page_ptr(at).addr() as u64, self.page_bytes());
        let range = Range { start, len: (pages * page_bytes) as u64 };
        // SAFETY: the area is registered, and its owner is borrowed exclusively. By the caller's
        // promise nothing uses what is at the source.
        match unsafe { registered.fd.move_pages(range, from as u64, Holes::Moved) } {
            Ok(()) => (pages, None),
            // The program has closed the descriptor.
            Err(Stuck { errno: Errno::BADF | Errno::NOTTY, .. }) => {
                self.registered = None;
                (0, Some(Errno::NOSYS))
            }
            Err(Stuck { done, errno }) => (done as usize / page_bytes, Some(errno)),
        }
    }

    /// Copies gathered pages back to where they were, which reads as zeros, and drops them here.
    ///
    /// # Safety
    /// The pages at `from` were gathered behind page `at` and its successors, and are the caller's.
    #[cold]
    pub(super) unsafe fn put_back(&mut self, at: usize, from: &[usize]) {
        for (page, &source) in (at..).zip(from) {
            let place = ptr::with_exposed_provenance_mut::<u8>(source);
            // SAFETY: both are mapped, one page long, and the caller's or this area's.
            unsafe { ptr::copy_nonoverlapping(self.page_ptr(page), place, self.page_bytes()) };
            self.drop_page(page);
        }
    }

    /// Drops what an empty page of the area holds. Where the system refuses that, it is dropped
    /// when the next page is to get there.
    fn drop_page(&self, page: usize) {
        let range = self.range(page, 1);
        // SAFETY: the page is this area's, and empty: nothing uses it.
        let _ = range.map(|range| unsafe { self.linux().discard(&[range]) });
    }
}

/// The state of places that pages were gathered from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Leave {
    /// No memory: a touch finds zeros.
    Nothing,
    /// Zeros, in memory: a missing page would trap.
    Zeros,
}

impl Leave {
    /// Returns what is left in the areas of a platform.
    pub(super) fn of(linux: &Linux) -> Self {
        if matches!(linux.guarding, Guarding::Userfault(_)) { Self::Zeros } else { Self::Nothing }
    }
}

/// Copies pages, and drops or clears them at their old place.
///
/// # Safety
/// The source is as for [`GatherArea::gather`], and the target is mapped and the caller's.
unsafe fn copy(source: usize, target: *mut u8, bytes: usize, leave: Leave) {
    let from = ptr::with_exposed_provenance_mut::<u8>(source);
    let run = iovec { iov_base: from.cast(), iov_len: bytes };
    if bytes == 0 {
        return;
    }
    // SAFETY: both are mapped and so long, and they are disjoint: the source is not in the area, as
    // `check` has found. Nothing uses what the source holds after that.
    unsafe {
        ptr::copy_nonoverlapping(from, target, bytes);
        // Locked pages can't be dropped.
        if leave == Leave::Zeros || advise(run, Advice::DontNeed).is_err() {
            ptr::write_bytes(from, 0, bytes);
        }
    }
}

/// The registration of an area.
#[derive(Debug)]
pub(super) struct Registered {
    fd: Userfaultfd,
    range: Range,
    generation: u64,
}

impl Registered {
    /// Registers `range` with a descriptor of its own; `None` where that is refused.
    pub(super) fn new(linux: &Linux, range: PageRange) -> Option<Self> {
        // Such an area is registered by its guards.
        if Leave::of(linux) == Leave::Zeros || hooks::install().is_err() {
            return None;
        }
        hooks::lock_always();
        BUDGET.take(SPLIT).ok()?;
        let shift = linux.memory.page_shift();
        let range = Range { start: range.start() << shift, len: range.len() << shift };
        let fd = Userfaultfd::open().ok()?;
        fd.register(range, Mode::Plain).ok()?;
        Some(Self { fd, range, generation: locks::generation() })
    }

    /// Returns true in a child of the process that registered the area.
    pub(super) fn is_parents(&self) -> bool {
        self.generation != locks::generation()
    }
}

impl Drop for Registered {
    /// Ends the registration, which would go on where a child of a fork has the descriptor as well.
    fn drop(&mut self) {
        if !self.is_parents() {
            let _ = self.fd.unregister(self.range);
            BUDGET.give_back(SPLIT);
        }
    }
}
