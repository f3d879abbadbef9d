//! A ring buffer without a seam: its pages are mapped twice, one behind the other.
//!
//! ```text
//!   addresses   │ 0 … len │ 0 … len │ guard │     get(len - 2, 4) is one slice
//!   frames      └─── A ───┴─── A ───┘
//! ```

use core::fmt;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
use stable_deref_trait::CloneStableDeref;
use vmalloc::{AllocError, AreaError, Frames, PagedArea, Protection, Request, RequestError, SpaceRef};

use crate::Linux;

/// A ring buffer: memory that begins again behind its end, so that any part of it is one slice. A
/// guard page follows.
///
/// Positions count on for ever: a slice begins at `at % len`.
///
/// ```
/// use vmalloc_linux::{LinuxOptions, Ring, SpaceOptions, open};
///
/// let space = open(LinuxOptions::new(), SpaceOptions::default())?;
/// let mut ring = Ring::new(space, 64 << 10)?;
/// let end = ring.len() - 3;
/// ring.get_mut(end, 6).unwrap().copy_from_slice(b"abcdef");
/// assert_eq!(ring.get(end + 3, 3), Some(&b"def"[..]), "it went on at the start");
/// assert_eq!(ring.get(0, 3), Some(&b"def"[..]));
/// # Ok::<(), vmalloc_linux::Error>(())
/// ```
///
/// Its content is of no meaning at first: what earlier owners of its frames left there. After a
/// `fork`, parent and child share the bytes: the caller of `fork` sees to it that only one of them
/// uses the ring.
pub struct Ring<S: SpaceRef<Platform = Linux>> {
    area: PagedArea<S>,
    len: usize,
}

impl<S: SpaceRef<Platform = Linux> + CloneStableDeref> Ring<S> {
    /// Allocates a ring of `bytes` bytes, rounded up to whole pages. It takes as many bytes of
    /// frames ([`LinuxOptions::frame_bytes`](crate::LinuxOptions::frame_bytes)), twice as many of addresses,
    /// and two mappings of the kernel for each run of frames.
    ///
    /// # Errors
    /// [`AreaError`] when frames or addresses run out, and for no bytes; nothing is lost or
    /// changed.
    pub fn new(space: S, bytes: usize) -> Result<Self, AreaError> {
        let page_bytes = space.geometry().page_bytes();
        let too_many = AllocError::Request(RequestError::SizeOverflow { bytes });
        let len = bytes.checked_next_multiple_of(page_bytes).ok_or(too_many)?;
        let twice = len.checked_mul(2).ok_or(too_many)?;
        let mut area = PagedArea::new(space.clone(), &Request::new(twice).tag("ring"))?;
        let frames = Frames::new(space, len / page_bytes)?;
        for offset in [0, len] {
            area.map(offset, &frames, Protection::ReadWrite)?;
        }
        Ok(Self { area, len })
    }
}

impl<S: SpaceRef<Platform = Linux>> Ring<S> {
    /// Returns how many bytes the ring has: whole pages.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a ring without bytes is not made")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the first byte. The bytes from `len` to twice `len` behind it are the
    /// first ones again.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.area.addr()
    }

    /// Returns the address of the first byte as a pointer.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.area.as_ptr()
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        self.area.space()
    }

    /// Returns `count` bytes from the position `at` on, over the end if need be; `None` if the ring
    /// has fewer.
    #[must_use]
    pub fn get(&self, at: usize, count: usize) -> Option<&[u8]> {
        let start = self.start(at, count)?;
        // SAFETY: see `start`; writers borrow the ring exclusively.
        Some(unsafe { core::slice::from_raw_parts(start, count) })
    }

    /// Returns `count` bytes from the position `at` on, to be written, over the end if need be;
    /// `None` if the ring has fewer.
    #[must_use]
    pub fn get_mut(&mut self, at: usize, count: usize) -> Option<&mut [u8]> {
        let start = self.start(at, count)?;
        // SAFETY: see `start`. The ring is borrowed exclusively, and no two of the bytes are one,
        // for the ring has as many.
        Some(unsafe { core::slice::from_raw_parts_mut(start, count) })
    }

    /// Returns the address of a position behind which `count` bytes are mapped, readable, writable
    /// and initialized, for as long as the ring lives. Its frames are its own alone.
    fn start(&self, at: usize, count: usize) -> Option<*mut u8> {
        if count > self.len {
            return None;
        }
        // Each byte has two addresses, of which the compiler thinks as of two bytes. What was
        // written through a slice is in memory before another slice is read, and no read of an
        // earlier slice comes later.
        compiler_fence(SeqCst);
        Some(self.as_ptr().wrapping_add(at % self.len))
    }
}

impl<S: SpaceRef<Platform = Linux>> fmt::Debug for Ring<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("addr", &format_args!("{:#x}", self.area.addr()))
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
