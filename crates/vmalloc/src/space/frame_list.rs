//! Frames that are to be mapped: listed one by one, or as runs. Where the platform finds runs in a
//! list, the check of the frames goes by runs as well.

use super::{Raw, Space};
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
    /// Returns how many frames there are.
    pub(super) fn pages(self) -> u64 {
        match self {
            Self::Frames(frames) => frames.len() as u64,
            Self::Runs(runs) => runs.iter().fold(0, |sum, run| sum.saturating_add(run.count)),
        }
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
        if list.pages() <= self.geometry.span.len() {
            self.check_list(list, Origin::Supply)?;
        }
        self.map_area(list, protection, Kind::Vmap, tag.map(Tag::new))
    }
}

impl<P: MapFrames> Space<P> {
    /// Calls `act` with `frames`, as runs where the platform finds some.
    #[inline]
    pub(super) fn with_runs<T>(&self, frames: &[Frame], act: impl FnOnce(FrameList<'_>) -> T) -> T {
        match self.platform.runs_of(frames) {
            Some(runs) => act(FrameList::Runs(&runs)),
            None => act(FrameList::Frames(frames)),
        }
    }

    /// Checks that all frames are of the origin `wanted`.
    pub(super) fn check_list(&self, list: FrameList<'_>, wanted: Origin) -> Result<(), AllocError> {
        match list {
            // By its name, which lets the compiler drop half of each look.
            FrameList::Frames(frames) if wanted == Origin::Supply => {
                self.check_frames(frames, Origin::Supply)
            }
            FrameList::Frames(frames) => self.check_frames(frames, wanted),
            FrameList::Runs(runs) => runs.iter().try_for_each(|run| {
                let end = run.first.0.checked_add(run.count);
                if wanted == Origin::Supply && end.is_some() && self.platform.are_taken(run.first, run.count)
                {
                    return Ok(());
                }
                run.frames().try_for_each(|frame| self.check_frames(&[frame], wanted))
            }),
        }
    }

    /// Returns log2 of the pages at a multiple of which an area that shows `list` should begin.
    pub(super) fn order_of(&self, list: FrameList<'_>) -> u32 {
        if let FrameList::Runs(runs) = list { self.platform.order_of(runs) } else { 0 }
    }

    /// Maps the frames of `list`.
    ///
    /// # Safety
    /// As for [`MapFrames::map_frames`].
    pub(super) unsafe fn map_list(
        &self,
        range: PageRange,
        list: FrameList<'_>,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promises are those asked for, by either.
        unsafe {
            match list {
                FrameList::Frames(frames) => self.platform.map_frames(range, frames, protection),
                FrameList::Runs(runs) => self.platform.map_runs(range, runs, protection),
            }
        }
    }
}
