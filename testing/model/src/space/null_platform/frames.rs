//! Frames that are numbers and no more: enough for the address part of what maps them.

use super::{Call, NullPlatform};
use vmalloc::{Frame, FrameSupply, MapFrames, Origin, PageRange, PlatformError, Protection};

/// Frames that went to and fro.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FrameCounts {
    /// Taken.
    pub taken: u64,
    /// Given back.
    pub given: u64,
    /// Put behind pages.
    pub mapped: u64,
    /// Pages that were discarded.
    pub discard: u64,
}

impl NullPlatform {
    /// Returns the counts of operations on frames so far.
    pub fn frame_counts(&self) -> FrameCounts {
        self.state.lock().counts
    }
}

// SAFETY: no number is handed out twice. A page leads to no memory, and so two that lead to one
// frame show the same bytes, none. There is no linear map.
#[allow(unsafe_code)]
unsafe impl FrameSupply for NullPlatform {
    fn take_frames(&self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        let first = self.take_run(frames.len() as u64, 1)?;
        frames.iter_mut().zip(0..).for_each(|(frame, nth)| *frame = first.plus(nth));
        Ok(())
    }

    fn take_run(&self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        let mut state = self.state.lock();
        let first = state.next_frame.next_multiple_of(align);
        state.next_frame = first + count;
        state.counts.taken += count;
        Ok(Frame(first))
    }

    unsafe fn give_frames(&self, frames: &[Frame]) {
        self.state.lock().counts.given += frames.len() as u64;
    }

    /// Any number passes for a frame of the supply, taken or not.
    fn origin(&self, _: Frame) -> Origin {
        Origin::Supply
    }
}

// SAFETY: see `FrameSupply`.
#[allow(unsafe_code)]
unsafe impl MapFrames for NullPlatform {
    /// Counts as a call of `map`.
    unsafe fn map_frames(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        assert_eq!(range.len(), frames.len() as u64, "{}: frames for {range:?}", Call::Map.name());
        // SAFETY: the caller's promise is that of `map`, but for whose the frames are.
        unsafe { vmalloc::Platform::map(self, range, protection)? };
        let mut state = self.state.lock();
        state.frames.extend((range.start()..).zip(frames.iter().copied()));
        state.counts.mapped += range.len();
        Ok(())
    }

    unsafe fn discard_hint(&self, range: PageRange) {
        self.state.lock().counts.discard += range.len();
    }

    fn frame_at(&self, page: u64) -> Option<Frame> {
        self.state.lock().frames.get(&page).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc::Platform;

    #[test]
    #[allow(unsafe_code)]
    fn frames_are_behind_their_pages_until_these_are_unmapped() {
        let range = PageRange::new(110, 112).unwrap();
        let platform = NullPlatform::new(PageRange::new(100, 200).unwrap(), 1);
        let mut frames = [Frame(0); 2];
        assert_eq!(platform.take_run(3, 4), Ok(Frame(0)));
        platform.take_frames(&mut frames).unwrap();
        assert_eq!(frames, [Frame(3), Frame(4)]);
        // SAFETY: nothing stands behind this platform's addresses, so no call can take memory from
        // anyone.
        unsafe {
            platform.map_frames(range, &frames, Protection::Read).unwrap();
            assert_eq!((platform.is_mapped(range), platform.frame_at(111)), (true, Some(Frame(4))));
            platform.discard_hint(range);
            platform.unmap(&[range]).unwrap();
            platform.give_frames(&frames);
        }
        assert_eq!(platform.frame_at(111), None);
        let counts = FrameCounts { taken: 5, given: 2, mapped: 2, discard: 2 };
        assert_eq!(platform.frame_counts(), counts);
    }
}
