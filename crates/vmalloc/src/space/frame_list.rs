//! Frames that are to be mapped: listed one by one, or as runs. Where the platform finds runs in a
//! list, the check of the frames goes by runs as well.

use super::Raw;
use crate::PageRange;
use crate::areas::{Kind, Tag};
use crate::platform::{Frame, FrameRun, MapFrames, Origin, PlatformError, Protection};
use crate::{AllocError, RequestError};

/// Frames in their order.
#[derive(Clone, Copy)]
pub(super) enum FrameList<'a> {
    /// One by one.
    Frames(&'a [Frame]),
    /// As runs, none of which is empty.
    Runs(&'a [FrameRun]),
}

impl FrameList<'_> {
    /// Calls `act` with `frames`, as runs where the platform finds some.
    #[inline]
    pub(super) fn with_runs<T>(
        platform: &impl MapFrames,
        frames: &[Frame],
        act: impl FnOnce(FrameList<'_>) -> T,
    ) -> T {
        match platform.runs_of(frames) {
            Some(runs) => act(FrameList::Runs(&runs)),
            None => act(FrameList::Frames(frames)),
        }
    }

    /// Returns how many frames there are.
    pub(super) fn pages(self) -> u64 {
        match self {
            Self::Frames(frames) => frames.len() as u64,
            Self::Runs(runs) => runs.iter().fold(0, |sum, run| sum.saturating_add(run.count)),
        }
    }

    /// Checks that all frames are of the origin `wanted`.
    pub(super) fn check(self, platform: &impl MapFrames, wanted: Origin) -> Result<(), AllocError> {
        match self {
            // By its name, which lets the compiler drop half of each look.
            Self::Frames(frames) if wanted == Origin::Supply => {
                check_frames(platform, frames, Origin::Supply)
            }
            Self::Frames(frames) => check_frames(platform, frames, wanted),
            Self::Runs(runs) => runs.iter().try_for_each(|run| {
                let end = run.first.0.checked_add(run.count);
                if wanted == Origin::Supply && end.is_some() && platform.are_taken(run.first, run.count) {
                    return Ok(());
                }
                run.frames().try_for_each(|frame| check_frames(platform, &[frame], wanted))
            }),
        }
    }

    /// Returns log2 of the pages at a multiple of which an area that shows the frames should begin.
    pub(super) fn order(self, platform: &impl MapFrames) -> u32 {
        if let Self::Runs(runs) = self { platform.order_of(runs) } else { 0 }
    }

    /// Maps the frames.
    ///
    /// # Safety
    /// As for [`MapFrames::map_frames`].
    pub(super) unsafe fn map(
        self,
        platform: &impl MapFrames,
        range: PageRange,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promises are those asked for, by either.
        unsafe {
            match self {
                Self::Frames(frames) => platform.map_frames(range, frames, protection),
                Self::Runs(runs) => platform.map_runs(range, runs, protection),
            }
        }
    }
}

#[inline(always)]
fn check_frames(platform: &impl MapFrames, frames: &[Frame], wanted: Origin) -> Result<(), AllocError> {
    let mut origins = frames.iter().map(|&frame| (frame, platform.origin(frame)));
    match origins.find(|(_, origin)| *origin != wanted) {
        Some((frame, origin)) => Err(AllocError::BadFrame { frame: frame.0, origin }),
        None => Ok(()),
    }
}

impl<P: MapFrames> Raw<'_, P> {
    /// Maps runs of frames of the platform's supply, in this order, to consecutive pages of an
    /// area: as [`map`](Self::map) does with a list of all of them, which a caller with runs at
    /// hand need not write. O(log n + runs) where huge pages serve, else as `map`.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. [`ZeroSize`](RequestError::ZeroSize) for an
    /// empty run, [`BadFrame`](AllocError::BadFrame) for a frame that is not taken from the supply.
    pub fn map_runs(
        &self,
        runs: &[FrameRun],
        protection: Protection,
        tag: Option<&str>,
    ) -> Result<usize, AllocError> {
        if runs.iter().any(|run| run.count == 0) {
            return Err(RequestError::ZeroSize.into());
        }
        let list = FrameList::Runs(runs);
        // More pages than there are find no addresses; so many frames are not looked at.
        if list.pages() <= self.space.geometry.span.len() {
            list.check(self.space.platform(), Origin::Supply)?;
        }
        self.map_area(list, protection, Kind::Vmap, tag.map(Tag::new))
    }
}
