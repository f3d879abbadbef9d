//! Pages that their owner gives up, gathered behind consecutive addresses.
//!
//! ```text
//!   before              │ a │ b │ c │ d │   memory of the caller        │   │   │   │g│   area
//!   gather(0, [d, a])   │   │ b │ c │   │                               │ d │ a │   │g│
//! ```
//! A page is at one address: it is moved, not shown a second time, so no file stands behind it and
//! no frame is taken. Its old place stays mapped, and reads as zeros.
//!
//! The kernel moves entries of page tables (`UFFDIO_MOVE`, Linux 6.8), with a call for each run of
//! pages that follow each other. It moves pages to registered addresses alone, so the area is
//! registered with a descriptor of userfaultfd(2), once for its life. That takes up to two mappings
//! of the kernel.
//!
//! # What can't be moved
//! A page that a child of a fork shares, or that the kernel uses for the moment, is copied instead,
//! and dropped at its old place. So are all pages where the kernel has no such call, a sandbox
//! refuses it, or mappings run short, and with [`GuardMeans::Userfault`](crate::GuardMeans). [`Gathered`]
//! tells how many were copied.
//!
//! # A step that fails
//! The pages that the call has gathered are copied back to where they were: nothing has changed.
//!
//! # Forks
//! A descriptor leads to the memory of the process that opened it. The child of a fork closes it
//! and registers the area with one of its own when it next gathers.

mod error;
mod moves;

pub use error::GatherError;

use crate::platform::Linux;
use moves::{Leave, Registered};
use std::ops;
use std::ptr;
use vmalloc::{AllocError, Area, Discard, PageRange, Request, RequestError, SpaceRef};

/// The pages that a call has gathered, by the way they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gathered {
    /// Pages that were moved. Pages that were never touched are among them.
    pub moved: usize,
    /// Pages that were copied, and dropped at their old place.
    pub copied: usize,
}

/// An area with a guard page, into which pages are gathered that their owners give up: see the
/// [module](self).
///
/// ```
/// use vmalloc_linux::gather::GatherArea;
/// use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
///
/// let space = open(LinuxOptions::new(), SpaceOptions::default())?;
/// let mut pool = GatherArea::new(space.clone(), 100)?;
/// let mut message = GatherArea::new(space, 4)?;
/// // …
/// # let memory = vmalloc_linux::Buffer::<_, vmalloc_linux::Zeroed>::new(pool.space().clone(), &vmalloc_linux::Request::new(100 * 4096))?;
/// # let pages: Vec<usize> = (0..100).map(|page| memory.addr() + page * 4096).collect();
/// # // SAFETY: the buffer is not used any more.
/// # unsafe { pool.gather(0, &pages)? };
/// message.gather_from(1, &mut pool, &[70, 3])?;
/// assert_eq!(message.get(1, 2).map(<[u8]>::len), Some(2 * 4096));
/// assert!(message.get(0, 1).is_none() && pool.get(70, 1).is_none());
/// message.clear(1, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GatherArea<S: SpaceRef<Platform = Linux>> {
    /// First, since a registration ends before its area. None where pages are copied.
    registered: Option<Registered>,
    /// For each page whether a gathered one is there. All others read as zeros.
    full: Vec<bool>,
    area: Area<S>,
}

impl<S: SpaceRef<Platform = Linux>> GatherArea<S> {
    /// Allocates an area of `pages` pages that holds none yet.
    ///
    /// # Errors
    /// [`GatherError::Alloc`], [`GatherError::Platform`]; nothing is lost or changed.
    pub fn new(space: S, pages: usize) -> Result<Self, GatherError> {
        let shift = space.platform().memory.page_shift();
        let bytes = pages.checked_mul(1 << shift);
        let bytes = bytes.ok_or(AllocError::from(RequestError::SizeOverflow { bytes: usize::MAX }))?;
        let area = Area::new(space, &Request::new(bytes).tag("gathered"))?;
        let mut full = Vec::new();
        full.try_reserve_exact(pages).map_err(|_| AllocError::Metadata)?;
        full.resize(pages, false);
        let mut this = Self { registered: None, full, area };
        // A cached area has memory of any content.
        this.clear(0, pages)?;
        this.register();
        Ok(this)
    }

    /// Returns the address of the first page.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.area.addr()
    }

    /// Returns the address of the first byte as a pointer.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.area.as_ptr()
    }

    /// Returns how many bytes it has, in whole pages.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "an area without bytes is not made")]
    pub fn len(&self) -> usize {
        self.area.len()
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        self.area.space()
    }

    /// Returns true if the kernel moves pages to this area; else all are copied.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.registered.is_some()
    }

    /// Returns the bytes of `pages` pages from page `at` on, if each holds a gathered page.
    #[must_use]
    pub fn get(&self, at: usize, pages: usize) -> Option<&[u8]> {
        let bytes = self.filled(at, pages)?;
        // SAFETY: the pages are this area's, mapped, and changed through `&mut self` alone.
        Some(unsafe { std::slice::from_raw_parts(self.page_ptr(at), bytes) })
    }

    /// Returns the bytes of `pages` pages from page `at` on, if each holds a gathered page.
    #[must_use]
    pub fn get_mut(&mut self, at: usize, pages: usize) -> Option<&mut [u8]> {
        let bytes = self.filled(at, pages)?;
        // SAFETY: as above, and `self` is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(self.page_ptr(at), bytes) })
    }

    /// Gathers the pages at the addresses `from` behind this area's pages from `at` on, in this
    /// order. Their old places stay mapped, and read as zeros. One call of the kernel for each run
    /// of pages that follow each other.
    ///
    /// # Safety
    /// The pages are private anonymous memory of the caller's, mapped readable and writable. None
    /// is named twice, and nothing uses what they hold. If some are of a space with
    /// [`GuardMeans::Userfault`](crate::GuardMeans), so is this area.
    ///
    /// # Errors
    /// [`GatherError`]; nothing is lost or changed.
    pub unsafe fn gather(&mut self, at: usize, from: &[usize]) -> Result<Gathered, GatherError> {
        let leave = Leave::of(self.linux());
        // SAFETY: the caller's promise is passed on.
        unsafe { self.gather_leaving(at, from, leave) }
    }

    /// # Safety
    /// As for [`gather`](Self::gather). Missing pages do not trap at the old places, or zeros are
    /// left there.
    unsafe fn gather_leaving(
        &mut self,
        at: usize,
        from: &[usize],
        leave: Leave,
    ) -> Result<Gathered, GatherError> {
        self.check(at, from)?;
        self.renew();
        let mut gathered = Gathered::default();
        let page_bytes = self.page_bytes();
        let (mut target, mut done) = (at, 0);
        for run in from.chunk_by(|first, next| next.wrapping_sub(*first) == page_bytes) {
            // SAFETY: the caller's promise, and `check` has found the places in the area empty.
            let taken = unsafe { self.take_run(target, run[0], run.len(), leave, &mut gathered) };
            if let Err((pages, error)) = taken {
                // SAFETY: so many pages were gathered, and their old places are the caller's.
                unsafe { self.put_back(at, &from[..done + pages]) };
                return Err(error);
            }
            (target, done) = (target + run.len(), done + run.len());
        }
        self.full[at..at + from.len()].fill(true);
        Ok(gathered)
    }

    /// Gathers pages of another area, by their numbers there, behind this area's pages from `at`
    /// on.
    ///
    /// # Errors
    /// [`GatherError`]; nothing is lost or changed.
    pub fn gather_from<T: SpaceRef<Platform = Linux>>(
        &mut self,
        at: usize,
        other: &mut GatherArea<T>,
        pages: &[usize],
    ) -> Result<Gathered, GatherError> {
        let mut from = Vec::new();
        from.try_reserve_exact(pages.len()).map_err(|_| AllocError::Metadata)?;
        other.mark_empty(pages)?;
        from.extend(pages.iter().map(|page| other.page_ptr(*page).addr()));
        let leave = Leave::of(other.linux()).max(Leave::of(self.linux()));
        // SAFETY: the other area owns the pages, and is borrowed exclusively. Each was full, and
        // was named once, as `mark_empty` has checked. Where its missing pages trap, zeros are
        // left.
        let gathered = unsafe { self.gather_leaving(at, &from, leave) };
        if gathered.is_err() {
            pages.iter().for_each(|page| other.full[*page] = true);
        }
        gathered
    }

    /// Drops what `pages` pages from page `at` on hold: they hold none any more, and their memory
    /// goes back to the machine.
    ///
    /// # Errors
    /// [`GatherError::Beyond`], and [`GatherError::Platform`] where the system refuses it: then
    /// each page reads as before or as zeros.
    pub fn clear(&mut self, at: usize, pages: usize) -> Result<(), GatherError> {
        self.check_bounds(at, pages)?;
        let Some(range) = self.range(at, pages) else { return Ok(()) };
        // SAFETY: the pages are this area's, mapped as plain memory, and borrowed exclusively.
        unsafe { self.linux().discard(&[range])? };
        self.full[at..at + pages].fill(false);
        Ok(())
    }
}

impl<S: SpaceRef<Platform = Linux>> GatherArea<S> {
    fn linux(&self) -> &Linux {
        self.area.space().platform()
    }

    fn page_bytes(&self) -> usize {
        1 << self.linux().memory.page_shift()
    }

    fn page_ptr(&self, page: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.addr() + page * self.page_bytes())
    }

    /// Returns `pages` pages of the area, from page `at` on; `None` for no pages.
    fn range(&self, at: usize, pages: usize) -> Option<PageRange> {
        let first = (self.addr() >> self.linux().memory.page_shift()) as u64 + at as u64;
        PageRange::from_len(first, pages as u64)
    }

    /// Returns the bytes of such pages, if all are full.
    fn filled(&self, at: usize, pages: usize) -> Option<usize> {
        let part = self.full.get(at..at.checked_add(pages)?)?;
        part.iter().all(|full| *full).then(|| pages * self.page_bytes())
    }

    fn check_bounds(&self, at: usize, pages: usize) -> Result<(), GatherError> {
        let len = self.full.len();
        match at.checked_add(pages) {
            Some(end) if end <= len => Ok(()),
            _ => Err(GatherError::Beyond { at, pages, len }),
        }
    }

    fn check(&self, at: usize, from: &[usize]) -> Result<(), GatherError> {
        self.check_bounds(at, from.len())?;
        if let Some(nth) = self.full[at..at + from.len()].iter().position(|full| *full) {
            return Err(GatherError::Occupied { at: at + nth });
        }
        let own: ops::Range<usize> = self.addr()..self.addr() + self.len();
        from.iter().try_for_each(|&addr| match addr {
            _ if addr % self.page_bytes() != 0 || addr == 0 => Err(GatherError::Unaligned { addr }),
            _ if own.contains(&addr) => Err(GatherError::Inside { addr }),
            _ => Ok(()),
        })
    }

    /// Marks pages as empty, each of which is full; else none is marked.
    fn mark_empty(&mut self, pages: &[usize]) -> Result<(), GatherError> {
        for (nth, &at) in pages.iter().enumerate() {
            let len = self.full.len();
            let place = self.full.get_mut(at).ok_or(GatherError::Beyond { at, pages: 1, len });
            let marked = place.and_then(|full| match std::mem::take(full) {
                true => Ok(()),
                false => Err(GatherError::Empty { at }),
            });
            if marked.is_err() {
                pages[..nth].iter().for_each(|page| self.full[*page] = true);
                return marked;
            }
        }
        Ok(())
    }

    fn register(&mut self) {
        self.registered =
            self.range(0, self.full.len()).and_then(|range| Registered::new(self.linux(), range));
    }

    /// Registers the area again in the child of a fork.
    fn renew(&mut self) {
        if self.registered.as_ref().is_some_and(Registered::is_parents) {
            self.registered = None;
            self.register();
        }
    }
}
