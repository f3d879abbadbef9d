//! Frames that users take from the supply and give back.

use super::Machine;
use crate::fault::Fault;
use crate::memory::Holder;
use crate::plan::Point;
use vmalloc::{Frame, Origin, PlatformError, PlatformFault};

impl Machine {
    pub(crate) fn take_frames(&mut self, frames: &mut [Frame]) -> Result<(), PlatformError> {
        if self.plan.pass(Point::TakeFrames).is_err() {
            return Err(self.refuse("take_frames", PlatformFault::OutOfMemory));
        }
        let taken = self.memory.take_many(frames.len() as u64);
        let taken = taken.ok_or_else(|| self.refuse("take_frames", PlatformFault::OutOfMemory))?;
        frames.iter_mut().zip(taken).for_each(|(frame, taken)| *frame = Frame(taken));
        Ok(())
    }

    pub(crate) fn take_run(&mut self, count: u64, align: u64) -> Result<Frame, PlatformError> {
        if count == 0 || !align.is_power_of_two() {
            self.report(Fault::BadRun { count, align });
            return Err(self.refuse("take_run", PlatformFault::Other));
        }
        if self.plan.pass(Point::TakeRun).is_err() {
            return Err(self.refuse("take_run", PlatformFault::OutOfMemory));
        }
        let taken = self.memory.take_run(count, align).map(Frame);
        taken.ok_or_else(|| self.refuse("take_run", PlatformFault::OutOfMemory))
    }

    /// Gives `frames` back. What was not taken is left as it is.
    pub(crate) fn give_frames(&mut self, frames: &[Frame]) {
        for &Frame(frame) in frames {
            if self.memory.holder(frame) != Some(Holder::User) {
                self.report(Fault::GivenForeign { frame });
                continue;
            }
            let pages = self.page_table.pages_of(frame, self.memory.life(frame));
            let in_use = pages.filter(|&page| !self.idle.contains(page));
            self.faults.extend(in_use.map(|page| Fault::GivenWhileMapped { frame, page }));
            self.memory.give(frame);
        }
    }

    pub(crate) fn origin(&self, Frame(frame): Frame) -> Origin {
        match self.memory.holder(frame) {
            Some(Holder::User) => Origin::Supply,
            None if self.memory.is_device(frame) => Origin::Device,
            _ => Origin::Foreign,
        }
    }

    /// Returns the frames that users have not given back.
    pub(crate) fn taken_frames(&self) -> Vec<Frame> {
        self.memory.taken().map(Frame).collect()
    }
}
