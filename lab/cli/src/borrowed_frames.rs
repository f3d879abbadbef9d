//! Frames that the platform lends out, and whether all of them came back.

use crate::machine::Machine;
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::{Frame, FrameSupply, MapFrames, Origin, PlatformError};

/// Frames that go back by themselves. What maps them must have ended before.
pub(crate) struct BorrowedFrames<'m> {
    machine: &'m Machine,
    frames: Vec<Frame>,
}

impl<'m> BorrowedFrames<'m> {
    /// `count` frames: consecutive ones as far as that is easily done.
    pub(crate) fn take(machine: &'m Machine, count: usize) -> Result<Self, PlatformError> {
        let mut frames = vec![Frame::default(); count];
        machine.space.platform().take_frames(&mut frames)?;
        machine.lender.note(&frames);
        Ok(Self { machine, frames })
    }

    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }
}

impl Drop for BorrowedFrames<'_> {
    fn drop(&mut self) {
        // SAFETY: they were taken by `self`, which alone borrowed them to mappings, and those have
        // ended.
        unsafe { self.machine.space.platform().give_frames(&self.frames) };
    }
}

/// Which frames were ever borrowed: all below this one may have been.
#[derive(Debug, Default)]
pub(crate) struct Lender(AtomicU64);

impl Lender {
    /// Relaxed, here and below: threads that took frames are joined before they are counted.
    fn note(&self, frames: &[Frame]) {
        let end = frames.iter().map(|frame| frame.0 + 1).max().unwrap_or(0);
        self.0.fetch_max(end, Ordering::Relaxed);
    }

    /// How many frames are still taken.
    pub(crate) fn missing(&self, platform: &impl MapFrames) -> usize {
        let borrowed = 0..self.0.load(Ordering::Relaxed);
        borrowed.filter(|&frame| platform.origin(Frame(frame)) == Origin::Supply).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineOptions;

    #[test]
    fn frames_that_are_not_given_back_are_missed() {
        let machine = Machine::new(MachineOptions::default()).expect("a machine with address space");
        let borrowed = BorrowedFrames::take(&machine, 5).expect("five frames");
        assert_eq!(machine.check_whole(), ["5 frames did not come back"]);
        drop(borrowed);
        assert_eq!(machine.check_whole(), [""; 0]);
    }
}
