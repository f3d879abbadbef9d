//! Frames of the supply, and mappings of them.

use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::areas::Blocking;
use crate::platform::{DirectMemory, Frame, FrameSupply, MapFrames, Protection};
use crate::purge::{FrameShare, copy};
use crate::space::{Space, give};
use crate::{AllocError, Fit, FreeError, RequestError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use stable_deref_trait::CloneStableDeref;

/// Owned frames of the platform's supply. Each [`Mapping`] of them has a share. They go back to
/// the supply when the frames and all their mappings are dropped, and no CPU reaches them any more.
///
/// The [crate](crate#what-owns-what) has an example.
pub struct Frames<S: SpaceRef> {
    frames: Box<[Frame]>,
    share: Share<S>,
}

/// A share in [`Frames`]: they stay taken as long as it lives.
#[must_use = "the frames may go back without it"]
pub struct Share<S: SpaceRef> {
    space: S,
    /// `None` once it is ended.
    share: Option<FrameShare>,
}

impl<S: SpaceRef<Platform: FrameSupply>> Frames<S> {
    /// Takes frames from the supply: see [`Space::frames`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, count: usize) -> Result<Self, AllocError> {
        let take = |frames: &mut [Frame]| space.platform().take_frames(frames);
        let frames =
            space.raw().take_frames(count, &Fit::new(count.max(1) as u64), Blocking::Allowed, take)?;
        Self::enter(space, frames)
    }

    /// Takes `count` consecutive frames, the first at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn consecutive(space: S, count: usize, align: u64) -> Result<Self, AllocError> {
        if !align.is_power_of_two() {
            return Err(RequestError::AlignNotPowerOfTwo { align }.into());
        }
        let take = |frames: &mut [Frame]| {
            let first = space.platform().take_run(frames.len() as u64, align)?;
            frames.iter_mut().zip(0..).for_each(|(frame, nth)| *frame = first.plus(nth));
            Ok(())
        };
        let frames =
            space.raw().take_frames(count, &Fit::new(count.max(1) as u64), Blocking::Allowed, take)?;
        Self::enter(space, frames)
    }

    fn enter(space: S, frames: Box<[Frame]>) -> Result<Self, AllocError> {
        if frames.is_empty() {
            return Err(RequestError::ZeroSize.into());
        }
        let listed = copy(&frames);
        let entered = space.frame_sets.enter(frames, give, space.platform());
        let share = entered.ok_or(AllocError::Metadata)?;
        let Some(frames) = listed else {
            space.frame_sets.end(share, space.platform());
            return Err(AllocError::Metadata);
        };
        Ok(Self { frames: frames.into_boxed_slice(), share: Share::of(space, share) })
    }

    /// Owns frames that were taken from the supply by hand.
    ///
    /// # Safety
    /// They were taken from the supply of this space's platform, and have no other owner. Pages
    /// that lead to them already are not used once this is dropped.
    ///
    /// # Errors
    /// [`AllocError::Metadata`]: the frames go back to the supply.
    pub unsafe fn from_raw(space: S, frames: Vec<Frame>) -> Result<Self, AllocError> {
        Self::enter(space, frames.into_boxed_slice())
    }
}

impl<S: SpaceRef> Frames<S> {
    /// Changes the order of the frames, in which they are mapped from now on.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.frames.swap(one, other);
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.share.space
    }

    pub(super) fn share_again(&self) -> Result<FrameShare, AllocError> {
        let again = self
            .share
            .share
            .as_ref()
            .and_then(|share| self.space().frame_sets.lock_with_room()?.again(share));
        again.ok_or(AllocError::Metadata)
    }
}

impl<S: SpaceRef + CloneStableDeref> Frames<S> {
    /// Returns one more share, for a mapping that is not a [`Mapping`].
    ///
    /// # Errors
    /// [`AllocError::Metadata`]; nothing is changed.
    pub fn share(&self) -> Result<Share<S>, AllocError> {
        Ok(Share::of(self.share.space.clone(), self.share_again()?))
    }
}

impl<S: SpaceRef> Share<S> {
    fn of(space: S, share: FrameShare) -> Self {
        Self { space, share: Some(share) }
    }

    /// Ends the share once everything is flushed that [tenants](crate::tenant) of the space got back
    /// before.
    #[doc(hidden)]
    pub fn end_after_sweep(mut self) {
        if let Some(share) = self.share.take() {
            self.space.frame_sets.lock().release_returned(share);
        }
    }
}

impl<S: SpaceRef> core::ops::Deref for Frames<S> {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.frames
    }
}

impl<S: SpaceRef> Drop for Share<S> {
    fn drop(&mut self) {
        if let Some(share) = self.share.take() {
            self.space.frame_sets.end(share, self.space.platform());
        }
    }
}

impl<S: SpaceRef> fmt::Debug for Share<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.share).finish()
    }
}

impl<S: SpaceRef> fmt::Debug for Frames<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frames").field(&self.frames).finish()
    }
}

/// Frames behind an area: see [`Mapping`].
#[derive(Debug)]
pub struct Mapped<const WRITABLE: bool>(());

impl<const W: bool> Sealed for Mapped<W> {}

// SAFETY: areas of `Raw::map` end by `Raw::unmap`.
unsafe impl<P: MapFrames, const W: bool> Ends<P> for Mapped<W> {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        unsafe { space.raw().unmap(addr) }
    }
}

/// An address that shows [`Frames`], readable and writable, with a guard page behind it. It keeps
/// the frames alive.
pub type Mapping<S> = Owned<S, Mapped<true>>;

/// An address that shows [`Frames`], and may only be read.
pub type ReadOnlyMapping<S> = Owned<S, Mapped<false>>;

impl<S: SpaceRef<Platform: MapFrames> + CloneStableDeref, const W: bool> Owned<S, Mapped<W>> {
    /// Maps all frames, in their order. Cost as [`Raw::map`](crate::Raw::map).
    ///
    /// The mapping holds a clone of the reference to the space, which has to lead to the same one:
    ///
    /// ```compile_fail,E0599
    /// # use vmalloc::{Frames, MapFrames, Mapping, Space, SpaceRef};
    /// # fn example<S: SpaceRef<Platform: MapFrames> + Clone>(frames: &Frames<S>) {
    /// let mapping = Mapping::new(frames); // `S` is no `CloneStableDeref`
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(frames: &Frames<S>) -> Result<Self, AllocError> {
        let protection = if W { Protection::ReadWrite } else { Protection::Read };
        let (space, share) = (frames.space().clone(), frames.share_again()?);
        let bytes = frames.len() << space.geometry().page_shift;
        let addr = match space.raw().map(frames, protection, None) {
            Ok(addr) => addr,
            Err(error) => {
                space.frame_sets.end(share, space.platform());
                return Err(error);
            }
        };
        let page = (addr >> space.geometry().page_shift) as u64;
        let is_shown = space.frame_sets.lock_with_room().map(|mut sets| sets.show(&share, page)).is_some();
        if is_shown {
            space.frame_sets.end(share, space.platform());
            return Ok(Self::own(space, addr, bytes, Mapped(())));
        }
        // Without a share of its own the area ends, and the one at hand after its flush.
        drop(Self::own(space.clone(), addr, bytes, Mapped(())));
        space.frame_sets.lock().release(share, page);
        Err(AllocError::Metadata)
    }
}

impl<S: SpaceRef<Platform: MapFrames>, const W: bool> Owned<S, Mapped<W>> {
    /// Copies bytes from `offset` on into `to`. Returns how many there were. Each byte is read by
    /// itself: one that is written meanwhile is old or new.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> usize
    where
        S::Platform: DirectMemory,
    {
        let count = self.len().saturating_sub(offset).min(to.len());
        for (nth, to) in to[..count].iter_mut().enumerate() {
            let from = core::ptr::with_exposed_provenance::<AtomicU8>(self.addr() + offset + nth);
            // SAFETY: the byte is mapped and readable, and safe code writes it by atomics only. A
            // relaxed load of a byte only reads, so it is allowed where nothing can be written.
            *to = unsafe { (*from).load(Relaxed) };
        }
        count
    }
}

impl<S: SpaceRef<Platform: MapFrames + DirectMemory>> Mapping<S> {
    /// Returns the bytes. Other mappings may show them too, so each is atomic.
    #[must_use]
    pub fn atomics(&self) -> &[AtomicU8] {
        // SAFETY: the frames are mapped, readable and writable, for as long as this lives
        // (`DirectMemory`). Safe code accesses them by atomics only, whose layout is that of bytes.
        unsafe { core::slice::from_raw_parts(self.as_ptr().cast(), self.len()) }
    }

    /// Copies `from` to the bytes from `offset` on. Returns for how many there was room. Each byte
    /// is written by itself.
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        let to = self.atomics().get(offset..).unwrap_or_default();
        to.iter().zip(from).for_each(|(to, from)| to.store(*from, Relaxed));
        to.len().min(from.len())
    }

    /// Copies the bytes of `from` to those from `to` on, as they were before, also where the two
    /// overlap. Returns how many there were, with room.
    pub fn copy_within(&self, from: Range<usize>, to: usize) -> usize {
        let (bytes, start) = (self.atomics(), from.start);
        let count = from.len().min(bytes.len().saturating_sub(start.max(to)));
        let copy = |nth: usize| bytes[to + nth].store(bytes[start + nth].load(Relaxed), Relaxed);
        match to < start {
            true => (0..count).for_each(copy),
            false => (0..count).rev().for_each(copy),
        }
        count
    }
}
