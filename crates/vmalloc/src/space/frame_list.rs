//! Frames that are to be mapped: listed one by one, or as runs.
//!
//! A machine with page tables maps a run with a fraction of the steps that its single frames take,
//! and one that fills a huge page with a single entry. So long lists are looked through once, and
//! where they are made of runs, the check of the frames and the platform go by runs as well. A list
//! of scattered frames is told by its first dozens.

use super::{Raw, Space};
use crate::PageRange;
use crate::areas::{Kind, Tag};
use crate::platform::{Frame, FrameRun, MapFrames, Origin, PlatformError, Protection};
use crate::{AllocError, RequestError};
use alloc::vec::Vec;
use wide::u64x2;

/// Frames of a list that is looked through: in a shorter one runs save little.
const RUNS_FROM: usize = crate::sync::size(128, 8) as usize;
/// Frames that a run has on average for runs to be worth while.
const MEAN_RUN: usize = 8;
/// Frames that are compared at a time, without a branch for each: as many as registers hold, and
/// many times that, so that long runs take fewer branches.
const SMALL: usize = 16;
const LARGE: usize = 256;

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

    /// Returns whether one of its runs fills a whole aligned 2^order pages of an area that begins
    /// at such a place.
    fn fills(self, order: u32) -> bool {
        let Self::Runs(runs) = self else { return false };
        let (size, mut place) = (1_u64 << order, 0_u64);
        runs.iter().any(|run| {
            let skipped = run.first.0.wrapping_neg() & (size - 1);
            let is_in_step = (run.first.0 ^ place) & (size - 1) == 0;
            place = place.saturating_add(run.count);
            is_in_step && run.count >= skipped.saturating_add(size)
        })
    }
}

/// Returns how many of the first of `frames` follow each other from number `first` on, in chunks of
/// `N`. They are compared as vectors: a branch for each frame would double the instructions.
fn chunks_in_run<const N: usize>(frames: &[Frame], first: u64) -> usize {
    let pair = |nth: usize| u64x2::new([0, 1].map(|odd| first.wrapping_add(2 * nth as u64 + odd)));
    let mut wanted: [u64x2; SMALL / 2] = core::array::from_fn(pair);
    let is_run = |(nth, chunk): &(usize, &[Frame])| {
        // Most that are no run don't begin as one: then they are not looked through.
        if chunk[0].0 != first.wrapping_add((nth * N) as u64) {
            return false;
        }
        let mut differing = u64x2::ZERO;
        for part in chunk.chunks_exact(SMALL) {
            for (wanted, pair) in wanted.iter_mut().zip(part.chunks_exact(2)) {
                differing |= u64x2::new([pair[0].0, pair[1].0]) ^ *wanted;
                *wanted += u64x2::splat(SMALL as u64);
            }
        }
        differing.to_array() == [0, 0]
    };
    frames.chunks_exact(N).enumerate().take_while(is_run).count() * N
}

/// Returns how many of the first of `frames` follow each other.
fn run_len(frames: &[Frame]) -> usize {
    let Some(first) = frames.first() else { return 0 };
    let number = |place: usize| first.0.wrapping_add(place as u64);
    let goes_on = |len: usize| frames.get(len).is_some_and(|frame| frame.0 == number(len));
    if !goes_on(1) {
        return 1;
    }
    let mut len = chunks_in_run::<LARGE>(frames, first.0);
    if goes_on(len) {
        len += chunks_in_run::<SMALL>(&frames[len..], number(len));
    }
    while goes_on(len) {
        len += 1;
    }
    len
}

/// Returns the runs that `frames` are made of; `None` where they are too short, or memory is.
fn runs_of(frames: &[Frame]) -> Option<Vec<FrameRun>> {
    let (mut runs, mut rest) = (Vec::new(), frames);
    runs.try_reserve(frames.len() / LARGE).ok()?;
    while let Some(&first) = rest.first() {
        let seen = frames.len() - rest.len();
        if runs.len() * MEAN_RUN > seen + RUNS_FROM || runs.try_reserve(1).is_err() {
            return None;
        }
        let len = run_len(rest);
        runs.push(FrameRun { first, count: len as u64 });
        rest = &rest[len..];
    }
    Some(runs)
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
    /// Calls `act` with `frames`, as runs where they are worth while on this machine.
    #[inline]
    pub(super) fn with_runs<T>(&self, frames: &[Frame], act: impl FnOnce(FrameList<'_>) -> T) -> T {
        let is_long = self.geometry.maps_runs && frames.len() >= RUNS_FROM;
        let runs = if is_long { runs_of(frames) } else { None };
        match runs {
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

    /// Returns log2 of the pages at a multiple of which an area that shows `list` should begin. It
    /// is that of a huge page, if its frames can fill one.
    pub(super) fn order_of(&self, list: FrameList<'_>) -> u32 {
        let huge = self.geometry.huge_order.filter(|_| self.geometry.maps_runs);
        huge.filter(|&order| list.fills(order)).unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::{FrameList, LARGE, RUNS_FROM, run_len, runs_of};
    use crate::platform::{Frame, FrameRun};
    use alloc::vec::Vec;

    fn run(first: u64, count: u64) -> FrameRun {
        FrameRun { first: Frame(first), count }
    }

    fn list(runs: &[FrameRun]) -> Vec<Frame> {
        runs.iter().flat_map(|run| run.frames()).collect()
    }

    #[test]
    fn a_run_ends_at_the_first_frame_that_does_not_follow() {
        for end in (1..70).chain(LARGE as u64 - 3..LARGE as u64 + 70) {
            for next in [0, 7 + end - 1, 7 + end + 1, u64::MAX] {
                let frames = list(&[run(7, end), run(next, 40)]);
                assert_eq!(run_len(&frames), end as usize, "then {next}");
            }
            assert_eq!(run_len(&list(&[run(u64::MAX - end, end)])), end as usize, "at the end of numbers");
        }
        assert_eq!(run_len(&[]), 0);
    }

    #[test]
    fn lists_of_runs_are_found_and_scattered_ones_are_given_up() {
        let runs = [run(512, 512), run(5, 1), run(7, 100), run(100, 200)];
        assert_eq!(runs_of(&list(&runs)).as_deref(), Some(&runs[..]));
        let scattered: Vec<Frame> = (0..RUNS_FROM as u64).map(|nth| Frame(2 * nth)).collect();
        assert_eq!(runs_of(&scattered), None);
    }

    #[test]
    fn areas_are_aligned_where_a_run_fills_a_huge_page() {
        let fills = |runs: &[FrameRun]| FrameList::Runs(runs).fills(9);
        assert!(
            fills(&[run(512, 512)])
                && fills(&[run(512, 513)])
                && fills(&[run(511, 1), run(0, 511)]).eq(&false)
        );
        assert!(!fills(&[run(512, 511)]), "too short");
        assert!(
            !fills(&[run(513, 1023)]),
            "out of step: the area's first page would be the second of a huge one"
        );
        assert!(fills(&[run(3, 1), run(513, 1023)]), "in step, and long enough behind the skipped frames");
        assert!(!fills(&[run(3, 1), run(513, 1022)]), "in step, and one short");
        assert!(fills(&[run(9, 512), run(1024, 512)]));
    }
}
