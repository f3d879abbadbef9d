//! Putting frames of users and devices behind pages, and letting them go.

use super::flush::first_half;
use super::{Discard, Machine};
use crate::fault::Fault;
use crate::plan::Point;
use crate::tlb::{Backing, Entry};
use vmalloc::{Frame, Origin, PageRange, PlatformError, PlatformFault, Protection};

impl Machine {
    /// Puts `frames` behind `range`, in a call by `cpu`.
    pub(crate) fn map_frames(
        &mut self,
        cpu: usize,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.check_ranges(Point::MapFrames, &[range]);
        let is_possible = self.check_frames(range, frames);
        self.check_place(range);
        if !is_possible {
            return Err(self.refuse("map_frames", PlatformFault::Other));
        }
        if self.plan.pass(Point::MapFrames).is_err() {
            first_half(&[range]).for_each(|half| self.unmap_replaceable(cpu, half));
            return Err(self.refuse("map_frames", PlatformFault::OutOfMemory));
        }
        self.forget_replaced(cpu, range);
        self.epoch += 1;
        for (page, &Frame(frame)) in (range.start()..).zip(frames) {
            let backing = Backing::Shared { life: self.memory.life(frame) };
            self.page_table.insert(page, Entry { frame, epoch: self.epoch, protection, backing });
        }
        self.unflushed.remove(range);
        self.idle.remove(range);
        self.counts.frame_maps += 1;
        Ok(())
    }

    /// Notes that `range` is no longer used. If that unmaps it, `cpu` alone notices.
    pub(crate) fn discard_hint(&mut self, cpu: usize, range: PageRange) {
        let (used, unused): (Vec<u64>, _) =
            (range.start()..range.end()).partition(|&page| self.is_shared(page) && !self.idle.contains(page));
        self.faults.extend(unused.first().map(|&page| Fault::DiscardedUnmapped { page }));
        let used = used.into_iter().filter_map(|page| PageRange::from_len(page, 1));
        used.for_each(|page| self.discard_page(cpu, page));
        self.counts.discards += 1;
    }

    /// Returns the frame that `map_frames` put behind `page`.
    pub(crate) fn frame_at(&self, page: u64) -> Option<Frame> {
        self.page_table.get(page).filter(Entry::is_shared).map(|entry| Frame(entry.frame))
    }

    fn is_shared(&self, page: u64) -> bool {
        self.page_table.get(page).is_some_and(|entry| entry.is_shared())
    }

    fn discard_page(&mut self, cpu: usize, page: PageRange) {
        self.idle.insert(page);
        if self.options.discard == Discard::Unmaps {
            self.drop_translation(cpu, page);
        }
    }

    /// Unmaps a page that `idle` holds, so that nothing uses it.
    fn drop_translation(&mut self, cpu: usize, page: PageRange) {
        self.page_table.remove(page.start());
        self.unflushed.insert(page);
        self.tlbs[cpu].flush(page);
    }

    /// Unmaps what a failing call may have done to a range that it was to replace.
    fn unmap_replaceable(&mut self, cpu: usize, range: PageRange) {
        let replaced: Vec<u64> =
            (range.start()..range.end()).filter(|&page| self.may_replace(page)).collect();
        for page in replaced.into_iter().filter_map(|page| PageRange::from_len(page, 1)) {
            self.idle.insert(page);
            self.drop_translation(cpu, page);
        }
    }

    /// Returns whether `page` leads, or led before it was discarded, to a frame that another may
    /// take the place of.
    fn may_replace(&self, page: u64) -> bool {
        self.options.replaces && (self.idle.contains(page) || self.is_shared(page))
    }

    /// Makes every CPU forget what is replaced in `range`.
    fn forget_replaced(&mut self, cpu: usize, range: PageRange) {
        if (range.start()..range.end()).any(|page| self.may_replace(page)) {
            (0..self.cpus()).for_each(|other| self.tell(cpu, other, &[range]));
            self.forget_left(range);
        }
    }

    /// Reports frames that may not be mapped, and too many or too few of them. Whether the machine
    /// could go on all the same.
    fn check_frames(&mut self, range: PageRange, frames: &[Frame]) -> bool {
        if frames.len() as u64 != range.len() {
            self.report(Fault::WrongCount { range, frames: frames.len() as u64 });
        }
        let paired = (range.start()..).zip(frames);
        let foreign = paired.filter(|&(_, &frame)| self.origin(frame) == Origin::Foreign);
        let fault = |(page, &Frame(frame)): (u64, &Frame)| Fault::MappedForeign { page, frame };
        let found: Vec<Fault> = foreign.map(fault).collect();
        self.faults.extend(found);
        let exists =
            |&Frame(frame): &Frame| self.memory.holder(frame).is_some() || self.memory.is_device(frame);
        frames.len() as u64 == range.len() && frames.iter().all(exists)
    }

    /// Reports what makes `range` unfit to be mapped to frames.
    fn check_place(&mut self, range: PageRange) {
        for page in (range.start()..range.end()).filter(|&page| !self.may_replace(page)).collect::<Vec<_>>() {
            match self.page_table.get(page) {
                Some(entry) if entry.is_shared() => {
                    self.report(Fault::MappedOver { page, frame: entry.frame });
                }
                Some(entry) => self.report(Fault::DoubleMap { page, frame: entry.frame }),
                None => PageRange::from_len(page, 1).into_iter().for_each(|page| self.check_reuse(page)),
            }
        }
    }
}
