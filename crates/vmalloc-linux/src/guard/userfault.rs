//! Guards by userfaultfd(2): a page that is not there raises `SIGBUS`, at once and everywhere.
//!
//! ```text
//!   span   │ pages │g│ pages │g│   freed   │ … │   new area: opened   │g│  free …
//!            there            missing: traps      appears at a touch     missing: traps
//!              ▲ │
//!         moved│ │moved             a page is at one address: in the span, or in the stash
//!              │ ▼
//!   stash  │ pages │ pages │ …
//! ```
//!
//! The whole span can be read and written, and is one mapping, registered so that the kernel raises
//! `SIGBUS` where a page is missing. So guards, free pages and freed pages need no marks.
//! `unmap_now` moves the pages of an area that was filled to the [stash](super::stash), and drops
//! all others. Either way nothing is left that a stale pointer could reach. `map` moves pages from
//! the stash where one run of it is enough for the whole range. So an area gets pages that it did
//! not ask for only where an earlier one has filled as many.
//!
//! # Opened ranges
//! Where the stash has too few pages the range is *opened*: its registration ends while it is in
//! use, so that its pages appear at a touch. That costs up to two mappings. Where mappings are
//! short, a range of fewer than [`RUN_END`] pages gets the page of zeros behind each of its pages
//! instead. Pages that are [special](crate::frames::table) are opened, too: the kernel keeps them in
//! mappings of their own.
//!
//! - **U1** A page of the span that has no bit in `opened` is registered. (The bits are set before
//!   a registration ends, and cleared after it is there again.)
//! - **U2** A page that has no bit in `opened` and is in no mapped range is missing.
//!
//! Bits belong to the owner of their page, so no lock is needed.
//!
//! # What can't be moved
//! Pages that a child of a fork shares, that are locked, or that the kernel uses for the moment are
//! dropped instead, and so is what follows them in their area. The stash itself is empty in a
//! child, so it shares nothing. Its addresses stay taken there: a hole would be found by whatever
//! the program maps before the hook runs.
//!
//! # Forks
//! The child inherits the mappings and no registration. Its hook opens a descriptor and registers
//! everything but opened ranges, before the child goes on. If the kernel refuses that, the child
//! can use and free what it has, and can map nothing more.

use crate::error::{mapping_error, platform_error};
use crate::fork::hooks::{self, AtFork};
use crate::fork::locks::OPENING;
use crate::guard::chunks::{ChunkState, Chunks};
use crate::guard::stash::{RUN_END, Stash};
use crate::os::batch::drop_pages;
use crate::os::madvise::{Advice, advise};
use crate::os::map_count::{BUDGET, SPARE, SPLIT};
use crate::os::reservation::{Access, Reservation};
use crate::os::userfaultfd::{Holes, Mode, Range, Stuck, Userfaultfd};
use crate::populate::is_full;
use libc::iovec;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{Evict, PageRange, PlatformError};

/// Pages in a bit of `groups`.
const GROUP_PAGES: u64 = 1 << 15;

/// Guards of one reservation. Dropped before the span is given back.
#[derive(Debug)]
pub(crate) struct Userfault(Arc<Shared>);

/// The state that the hook around forks repairs.
#[derive(Debug)]
pub(crate) struct Shared {
    span: PageRange,
    page_shift: u32,
    fd: Userfaultfd,
    /// A bit for each page: *open* ones are not registered.
    opened: Chunks,
    /// A bit for each group of pages of which some were ever opened.
    groups: Chunks,
    stash: Option<Stash>,
    /// True once the program has closed the descriptor: unmapped pages may hold what was written
    /// while nothing trapped.
    was_closed: AtomicBool,
    /// True while the span is there, and its registration is as it should be.
    is_ready: AtomicBool,
}

impl Userfault {
    /// Registers the span, and opens a stash of up to `stash_bytes`. If that fails, the span may be
    /// accessible, with nothing in it.
    pub(crate) fn new(
        memory: &Reservation,
        stash_bytes: usize,
        cpus: usize,
    ) -> Result<Self, (&'static str, Errno)> {
        let (span, page_shift) = (memory.span(), memory.page_shift());
        let fd = Userfaultfd::open().map_err(|errno| ("userfaultfd", errno))?;
        hooks::lock_always();
        let mmap = |errno| ("mmap", errno);
        let shared = Shared {
            span,
            page_shift,
            fd,
            opened: Chunks::of_pages(span, 1).map_err(mmap)?,
            groups: Chunks::of_pages(span, GROUP_PAGES).map_err(mmap)?,
            stash: open_stash(stash_bytes, page_shift, cpus),
            was_closed: AtomicBool::new(false),
            is_ready: AtomicBool::new(true),
        };
        memory.protect(span, Access::ReadWrite).map_err(|errno| ("mprotect of the span", errno))?;
        match shared.register_stash().and_then(|()| shared.register(span)) {
            Ok(()) => Ok(Self(Arc::new(shared))),
            // The descriptor is closed, and the registration with it. The probe that called this
            // maps the span again.
            Err(errno) => Err(("userfaultfd", errno)),
        }
    }

    /// Returns what takes part in forks.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Returns true if pages that were just mapped read as zero.
    pub(crate) fn maps_zeroed(&self) -> bool {
        self.0.stash.is_none()
    }

    pub(crate) fn map(
        &self,
        memory: &Reservation,
        range: PageRange,
        cpu: usize,
    ) -> Result<(), PlatformError> {
        let shared = &*self.0;
        if !shared.is_ready.load(Ordering::Relaxed) {
            return Err(platform_error("userfaultfd in the child of a fork", Errno::NOSYS));
        }
        if !shared.opened.is_closed(range) {
            self.unmap(memory, &[range])?;
        }
        if !self.grows_opened(range) && shared.fill(memory, range, cpu) {
            return Ok(());
        }
        if range.len() >= RUN_END {
            return self.open(memory, range);
        }
        SPARE.take(SPLIT).and_then(|()| self.open(memory, range)).or_else(|refused| {
            // It takes time and tables by its pages, but no mapping.
            shared.put_zeros(memory, range).map_err(|_| refused)
        })
    }

    /// Gives the memory behind `range`, which stays mapped and was filled, back to the machine. Its
    /// pages are the page of zeros until they are written. Where they can't be put there the range
    /// is opened.
    pub(crate) fn empty(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        memory.advise(range, Advice::DontNeed)?;
        if !self.0.is_ready.load(Ordering::Relaxed) {
            // Nothing is registered in this child.
            return Ok(());
        }
        let again = |errno| self.0.renew(errno).and_then(|()| self.0.put_zeros(memory, range));
        self.0.put_zeros(memory, range).or_else(again).or_else(|_| self.open(memory, range))
    }

    /// Returns true if the page before `range` is opened: an area that grows stays of one kind, and
    /// of one mapping.
    fn grows_opened(&self, range: PageRange) -> bool {
        let before = PageRange::new(range.start() - 1, range.start());
        before.is_some_and(|page| self.0.span.covers(&page) && self.is_opened(page))
    }

    /// Lets the pages of `range`, which are missing, appear at a touch.
    fn open(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        BUDGET.take(SPLIT)?;
        self.set_opened(range);
        let unregister = || {
            // Relaxed: nothing was written through the pointers of this thread's area before.
            if self.0.was_closed.load(Ordering::Relaxed) {
                let _ = memory.advise(range, Advice::DontNeed);
            }
            self.0.fd.unregister(self.0.bytes(range))
        };
        let again = |errno| self.0.renew(errno).and_then(|()| unregister());
        unregister().or_else(again).map_err(|errno| {
            self.0.opened.set(range, ChunkState::Closed);
            mapping_error(["UFFDIO_UNREGISTER", "UFFDIO_UNREGISTER (at vm.max_map_count)"], errno)
        })
    }

    /// Notes that `range` is about to lose its registration, with its mapping.
    pub(crate) fn set_opened(&self, range: PageRange) {
        self.0.groups.set(self.0.groups.round_out(range), ChunkState::Open);
        self.0.opened.set(range, ChunkState::Open);
    }

    /// Returns true if all of `range` is opened.
    pub(crate) fn is_opened(&self, range: PageRange) -> bool {
        self.0.opened.is_open(range)
    }

    /// Returns the parts of `range` that are opened, or those that are not.
    pub(crate) fn parts(&self, range: PageRange, state: ChunkState) -> impl Iterator<Item = PageRange> {
        self.0.opened.runs(range, state)
    }

    /// Drops the memory behind `ranges`.
    pub(crate) fn unmap(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().try_for_each(|range| self.register_opened(*range))?;
        drop_pages(memory, ranges)?;
        ranges.iter().for_each(|range| self.0.close(*range));
        Ok(())
    }

    /// Moves the pages of `range` to the stash, or drops them.
    pub(crate) fn unmap_now(
        &self,
        memory: &Reservation,
        range: PageRange,
        cpu: usize,
    ) -> Result<(), PlatformError> {
        self.register_opened(range)?;
        let moved = self.0.stow(memory, range, cpu);
        let rest = PageRange::new(range.start() + moved, range.end());
        rest.map_or(Ok(()), |rest| memory.advise(rest, Advice::DontNeed))?;
        self.0.close(range);
        Ok(())
    }

    /// Registers what is opened of `range`, before its pages go: there is no moment at which one of
    /// them could appear again.
    fn register_opened(&self, range: PageRange) -> Result<(), PlatformError> {
        self.parts(range, ChunkState::Open).try_for_each(|part| {
            let again = |errno| self.0.renew(errno).and_then(|()| self.0.register(part));
            self.0.register(part).or_else(again).map_err(|errno| {
                mapping_error(["UFFDIO_REGISTER", "UFFDIO_REGISTER (at vm.max_map_count)"], errno)
            })?;
            BUDGET.give_back(SPLIT);
            SPARE.give_back(SPLIT);
            Ok(())
        })
    }

    /// Gives memory of the stash back. Returns whether some is left.
    pub(crate) fn evict(&self, part: Evict) -> bool {
        let Some(stash) = &self.0.stash else { return false };
        let kept = stash.kept();
        self.0.shrink(stash, if part == Evict::All { kept } else { kept.div_ceil(4) });
        stash.kept() != 0
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        // A hook may hold the rest for the time of a fork. In its child the span may be gone.
        self.0.is_ready.store(false, Ordering::Relaxed);
    }
}

impl Shared {
    fn bytes(&self, range: PageRange) -> Range {
        Range { start: range.start() << self.page_shift, len: range.len() << self.page_shift }
    }

    fn register(&self, range: PageRange) -> Result<(), Errno> {
        self.fd.register(self.bytes(range), Mode::Missing)
    }

    /// Registers the stash, for pages are moved to registered addresses alone. Its content
    /// is not copied to children, and it gets no huge pages, which would have to be split.
    fn register_stash(&self) -> Result<(), Errno> {
        let Some(stash) = &self.stash else { return Ok(()) };
        let memory = stash.memory();
        memory.advise_whole(Advice::WipeOnFork)?;
        // A kernel without huge pages has no such advice either.
        let _ = memory.advise_whole(Advice::NoHugePage);
        let range = Range { start: memory.base().addr().get() as u64, len: memory.bytes() as u64 };
        self.fd.register(range, Mode::Plain)
    }

    /// Puts pages of the stash behind `range`, of any content, if it has enough of them. If that
    /// fails, nothing is behind it.
    fn fill(&self, memory: &Reservation, range: PageRange, cpu: usize) -> bool {
        let taken =
            self.stash.as_ref().and_then(|stash| Some((stash, stash.take(cpu, range.len(), range.len())?)));
        let Some((stash, run)) = taken else { return false };
        let moved = self.move_pages(range.start(), run.page, run.pages);
        if moved < run.pages {
            // They are in use by the kernel, or were dropped by the program. Or `range` holds
            // something: see `was_closed`.
            self.drop_kept(run.page + moved, run.pages - moved);
            let _ = memory.advise(range, Advice::DontNeed);
        }
        let is_filled = moved == run.pages;
        stash.taken(run);
        is_filled
    }

    /// Puts the page of zeros behind each page of `range`, in place of what is there.
    fn put_zeros(&self, memory: &Reservation, range: PageRange) -> Result<(), Errno> {
        // If this fails, the next call finds what is there.
        let _ = memory.advise(range, Advice::DontNeed);
        // SAFETY: the range is that of the caller of `map` or `discard`, and registered (U1).
        unsafe { self.fd.put_zeros(self.bytes(range)) }.map_err(|stuck| stuck.errno)
    }

    /// Moves pages of `range` to the stash, from its begin on, if it was filled. Returns how many.
    fn stow(&self, memory: &Reservation, range: PageRange, cpu: usize) -> u64 {
        let Some(stash) = self.stash.as_ref().filter(|_| range.len() < RUN_END) else { return 0 };
        // Of an opened area, one page tells: the one that a full area has.
        let telling = PageRange::from_len(range.start() + range.len() * 4 / 5, 1);
        if self.opened.is_open(range) && !telling.is_some_and(|page| is_full(memory, page)) {
            return 0;
        }
        self.shrink(stash, stash.lacking(range.len()));
        let Some(run) = stash.room(cpu, range.len()) else { return 0 };
        let moved = self.move_pages(run.page, range.start(), range.len());
        stash.filled(run, moved);
        moved
    }

    /// Drops so many pages of the stash or some more, the smallest runs first: the others serve
    /// more requests.
    fn shrink(&self, stash: &Stash, mut pages: u64) {
        while pages != 0 {
            let Some(run) = stash.take(pages as usize, 1, RUN_END) else { break };
            pages = pages.saturating_sub(run.pages);
            self.drop_kept(run.page, run.pages);
            stash.taken(run);
        }
    }

    /// Moves `pages` pages as far as that goes. Returns how many.
    fn move_pages(&self, to: u64, from: u64, pages: u64) -> u64 {
        let range = Range { start: to << self.page_shift, len: pages << self.page_shift };
        // SAFETY: one is a run of the stash, which is this thread's. The other is a range of the
        // caller of `map`, or of `unmap_now`, which says that nothing uses it. Both are registered.
        match unsafe { self.fd.move_pages(range, from << self.page_shift, Holes::Refused) } {
            Ok(()) => pages,
            Err(Stuck { done, .. }) => done >> self.page_shift,
        }
    }

    /// Drops pages of the stash.
    fn drop_kept(&self, page: u64, pages: u64) {
        let start = std::ptr::without_provenance_mut((page << self.page_shift) as usize);
        let run = iovec { iov_base: start, iov_len: (pages << self.page_shift) as usize };
        // SAFETY: the pages are of a run that is this thread's, and nothing uses what they hold.
        // If the kernel refuses, they are found again when the slot is filled, and dropped then.
        let _ = unsafe { advise(run, Advice::DontNeed) };
    }

    /// Notes that `range` is registered.
    fn close(&self, range: PageRange) {
        while let Some(part) = self.opened.runs(range, ChunkState::Open).next() {
            self.opened.set(part, ChunkState::Closed);
        }
    }

    /// Registers everything but opened ranges.
    fn register_again(&self) -> Result<(), Errno> {
        let mut start = self.span.start();
        for group in self.groups.runs(self.span, ChunkState::Open) {
            for part in self.opened.runs(group, ChunkState::Open) {
                PageRange::new(start, part.start()).map_or(Ok(()), |before| self.register(before))?;
                start = part.end();
            }
        }
        PageRange::new(start, self.span.end()).map_or(Ok(()), |rest| self.register(rest))
    }

    /// Registers everything again where the program has closed the descriptor, which made all pages
    /// appear at a touch. Returns `errno` where it has not.
    #[cold]
    fn renew(&self, errno: Errno) -> Result<(), Errno> {
        let _one_at_a_time = OPENING.lock();
        if !self.fd.is_closed() {
            // Another thread was faster, or it was another error.
            return if matches!(errno, Errno::BADF | Errno::NOTTY) { Ok(()) } else { Err(errno) };
        }
        self.was_closed.store(true, Ordering::Relaxed);
        self.reopen()
    }

    fn reopen(&self) -> Result<(), Errno> {
        self.fd.reopen()?;
        self.register_stash()?;
        self.register_again()
    }
}

impl AtFork for Arc<Shared> {
    /// Does nothing: the calls of the kernel are whole or not begun at a fork, and the child needs
    /// no lock of the stash.
    fn quiesce(&self) {}

    unsafe fn resume(&self) {}

    unsafe fn resume_in_child(&self) {
        if self.is_ready.load(Ordering::Relaxed) {
            self.stash.iter().for_each(Stash::start_anew);
            self.is_ready.store(self.reopen().is_ok(), Ordering::Relaxed);
        }
    }
}

/// Opens a stash of the first of `bytes`, a half, a quarter … of it for which there are addresses.
fn open_stash(bytes: usize, page_shift: u32, cpus: usize) -> Option<Stash> {
    let sizes = std::iter::successors(Some(bytes), |bytes| Some(bytes / 2));
    let sizes = sizes.take_while(|bytes| bytes >> page_shift != 0);
    sizes.filter_map(|bytes| Stash::new(bytes, page_shift, cpus).ok()).next()
}
