//! Frames: pages of memory that can be mapped at several addresses at once.

use super::{Platform, PlatformError, PlatformFault, Protection};
use crate::PageRange;
use alloc::vec::Vec;

/// A page of memory that can be mapped at several addresses at once, by its number on its platform.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, zerocopy::FromZeros)]
#[repr(transparent)]
pub struct Frame(pub u64);

impl Frame {
    /// Returns the frame `n` numbers further.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

/// Frames that follow each other: so many from the first on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FrameRun {
    /// The first frame.
    pub first: Frame,
    /// How many frames there are.
    pub count: u64,
}

impl FrameRun {
    /// Returns its frames, in order.
    pub fn frames(self) -> impl Iterator<Item = Frame> {
        (0..self.count).map(move |nth| self.first.plus(nth))
    }
}

/// The origin of a frame, as its platform reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// It was taken from the platform's supply and not given back yet.
    Supply,
    /// It is memory of a device, which is never in the supply.
    Device,
    /// Neither: it may not be mapped.
    Foreign,
}

/// A platform with a supply of frames.
///
/// # Safety
/// - A frame that [`take_frames`](Self::take_frames) or [`take_run`](Self::take_run) has handed out
///   is handed out to no other caller until it is given back.
/// - What [`Geometry::linear_map`](super::Geometry::linear_map) says is true for as long as the
///   platform lives.
pub unsafe trait FrameSupply: Platform {
    /// Takes as many frames out of the supply as `frames` has room for, of any content, consecutive
    /// ones as far as that is easily done. In bulk, all or none.
    ///
    /// # Errors
    /// When there are fewer. None is taken then.
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError>;

    /// Takes `count` consecutive frames, not 0, the first at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// When there is no such run. None is taken then.
    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError>;

    /// Gives frames back to the supply, in any order and grouping.
    ///
    /// # Safety
    /// They were taken and not given back since; nothing uses them, be it through an address that
    /// still leads to them.
    unsafe fn give_frames(&self, frames: &[Frame]);

    /// Returns the origin of `frame`. Never waits.
    fn origin(&self, frame: Frame) -> Origin;

    /// Returns whether `count` frames from `first` on are all the [supply's](Origin::Supply). Never
    /// waits.
    fn are_taken(&self, first: Frame, count: u64) -> bool {
        (0..count).all(|nth| self.origin(first.plus(nth)) == Origin::Supply)
    }
}

/// A platform that puts given frames behind pages.
///
/// # Safety
/// After [`map_frames`](Self::map_frames) has returned `Ok`, page `i` of the range leads to frame
/// `i`, until the range is unmapped or, where that is allowed, mapped again. Two pages that lead to
/// one frame show the same bytes. What [`runs_of`](Self::runs_of) returns are the frames of the
/// list, in its order.
pub unsafe trait MapFrames: FrameSupply {
    /// Puts `frames`, as many as `range` has pages, behind `range`.
    ///
    /// The range is inside the span and not mapped. Where mapping
    /// [replaces](super::Geometry::remaps_atomically), it may be mapped to other frames.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and the frames are [the supply's or a
    /// device's](Origin).
    ///
    /// # Errors
    /// When page tables or mappings run out. The caller owns `range` as before; nothing is mapped
    /// there that was not.
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError>;

    /// Puts the frames of `runs`, in their order and as many as `range` has pages, behind `range`.
    /// No run is empty. The default writes a list of them for [`map_frames`](Self::map_frames).
    ///
    /// # Safety
    /// As for [`map_frames`](Self::map_frames).
    ///
    /// # Errors
    /// As for [`map_frames`](Self::map_frames), and when there is no memory for the list.
    unsafe fn map_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        let mut frames = Vec::new();
        let no_list = PlatformError { call: "map_runs: a list", fault: PlatformFault::OutOfMemory, code: 0 };
        frames.try_reserve_exact(range.len() as usize).map_err(|_| no_list)?;
        frames.extend(runs.iter().flat_map(|run| run.frames()));
        // SAFETY: the caller's promises are those asked for.
        unsafe { self.map_frames(range, &frames, protection) }
    }

    /// Returns the runs that `frames` are made of, where [`map_runs`](Self::map_runs) does better
    /// with them than [`map_frames`](Self::map_frames) with the list. The default is for platforms
    /// that map each frame for itself.
    #[inline]
    fn runs_of(&self, frames: &[Frame]) -> Option<Vec<FrameRun>> {
        None
    }

    /// Returns log2 of the pages at a multiple of which an area that shows `runs` should begin: for
    /// platforms that map a run by huge pages where it fills some. An area begins anywhere where
    /// there is no such place. Default: 0, for anywhere.
    #[inline]
    fn order_of(&self, runs: &[FrameRun]) -> u32 {
        0
    }

    /// Hints that `range` is no longer accessed. The platform may unmap it now. The allocator still
    /// calls [`unmap`](Platform::unmap) before `flush`, unless it first maps the range again.
    ///
    /// # Safety
    /// The caller owns `range` exclusively, and it was mapped by [`map_frames`](Self::map_frames).
    unsafe fn discard_hint(&self, range: PageRange) {}

    /// Returns the frame behind `page`, if [`map_frames`](Self::map_frames) has put one there and
    /// nothing has taken it away.
    fn frame_at(&self, page: u64) -> Option<Frame>;
}
