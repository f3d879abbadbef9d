//! Taking translations away, from the page table first and from every CPU later.

use super::Machine;
use crate::fault::Fault;
use crate::options::InjectedBug;
use crate::plan::Point;
use crate::tlb::Entry;
use rand_xoshiro::rand_core::Rng;
use vmalloc::{PageRange, PlatformError, PlatformFault};

impl Machine {
    /// Unmaps `ranges`. Only `cpu` itself notices.
    pub(crate) fn unmap(&mut self, cpu: usize, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.check_ranges(Point::Unmap, ranges);
        if self.plan.pass(Point::Unmap).is_err() {
            first_half(ranges).for_each(|range| self.unmap_range(cpu, range));
            return Err(self.refuse("unmap", PlatformFault::Other));
        }
        if let Some(index) = ranges.iter().position(|range| self.is_refused(Point::Unmap, range)) {
            ranges[..index].iter().for_each(|&range| self.unmap_range(cpu, range));
            return Err(self.refuse("unmap of a refused page", PlatformFault::Locked));
        }
        ranges.iter().for_each(|&range| self.unmap_range(cpu, range));
        self.counts.unmaps += 1;
        Ok(())
    }

    /// Unmaps `range`, makes every CPU forget it, and recycles the frames behind it.
    pub(crate) fn unmap_now(&mut self, cpu: usize, range: PageRange) -> Result<(), PlatformError> {
        let ranges = [range];
        self.check_ranges(Point::UnmapNow, &ranges);
        let is_refused = [Point::Unmap, Point::Flush].iter().any(|point| self.is_refused(*point, &range));
        if self.plan.pass(Point::UnmapNow).is_err() || is_refused {
            first_half(&ranges).for_each(|range| self.unmap_range(cpu, range));
            return Err(self.refuse("unmap_now", PlatformFault::Other));
        }
        self.unmap_range(cpu, range);
        self.finish(cpu, &ranges);
        Ok(())
    }

    /// Makes mapped pages read as zero: their frames stay.
    pub(crate) fn discard(&mut self, cpu: usize, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.check_ranges(Point::Discard, ranges);
        if self.plan.pass(Point::Discard).is_err() {
            first_half(ranges).for_each(|range| self.zero(cpu, range));
            return Err(self.refuse("discard", PlatformFault::Other));
        }
        ranges.iter().for_each(|&range| self.zero(cpu, range));
        Ok(())
    }

    fn unmap_range(&mut self, cpu: usize, range: PageRange) {
        let entries: Vec<(u64, Entry)> = self.page_table.entries_in(range).collect();
        entries.iter().for_each(|&(page, _)| _ = self.page_table.remove(page));
        let own = entries.into_iter().filter(|(_, entry)| !entry.is_shared());
        self.limbo.extend(own.map(|(page, entry)| (page, entry.frame)));
        self.unflushed.insert(range);
        self.idle.remove(range);
        self.tlbs[cpu].flush(range);
        if self.options.injected_bug == Some(InjectedBug::EarlyRecycling) {
            self.recycle(range);
        }
    }

    /// Makes every CPU forget `ranges`, and recycles the frames that were behind them.
    pub(crate) fn flush(&mut self, cpu: usize, ranges: &[PageRange]) -> Result<(), PlatformError> {
        match self.options.injected_bug {
            Some(InjectedBug::DroppedFlush) => Ok(()),
            Some(InjectedBug::DelayedFlush) => {
                self.late.push(ranges.to_vec());
                Ok(())
            }
            Some(InjectedBug::LowestFlushedOnly) => self.flush_now(cpu, &ranges[..1]),
            _ => self.flush_now(cpu, ranges),
        }
    }

    /// Does the flushes that were put off. A failure is lost, as it would be.
    pub(crate) fn catch_up(&mut self, cpu: usize) {
        for set in std::mem::take(&mut self.late) {
            let _ = self.flush_now(cpu, &set);
        }
    }

    fn flush_now(&mut self, cpu: usize, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.check_ranges(Point::Flush, ranges);
        // Pages that were discarded and unmapped by the machine itself have not been unmapped by
        // the caller yet.
        let stray = |&range: &PageRange| self.unflushed.missing(range).or_else(|| self.idle.page_in(range));
        let strays = ranges.iter().filter_map(stray);
        self.faults.extend(strays.map(|page| Fault::NotUnmapped { page }));
        if self.plan.pass(Point::Flush).is_err() {
            self.flush_some(cpu, ranges);
            return Err(self.refuse("flush", PlatformFault::Other));
        }
        if ranges.iter().any(|range| self.is_refused(Point::Flush, range)) {
            self.flush_some(cpu, ranges);
            return Err(self.refuse("flush of a refused page", PlatformFault::Other));
        }
        self.finish(cpu, ranges);
        Ok(())
    }

    /// Ends a flush that does not fail.
    fn finish(&mut self, cpu: usize, ranges: &[PageRange]) {
        (0..self.cpus()).for_each(|other| self.tell(cpu, other, ranges));
        ranges.iter().for_each(|&range| self.unflushed.remove(range));
        ranges.iter().for_each(|&range| self.forget_left(range));
        ranges.iter().for_each(|&range| self.recycle(range));
        self.counts.flushes += 1;
    }

    /// Returns whether such a call refuses a page of `range`.
    fn is_refused(&self, call: Point, range: &PageRange) -> bool {
        self.refused.iter().any(|(by, pages)| *by == call && pages.intersection(range).is_some())
    }

    /// Fails a flush: it has reached each CPU or not.
    fn flush_some(&mut self, cpu: usize, ranges: &[PageRange]) {
        for other in 0..self.cpus() {
            if self.random.next_u64().is_multiple_of(2) {
                self.tell(cpu, other, ranges);
            }
        }
    }

    /// Makes `other` forget `ranges`, for `cpu`.
    pub(super) fn tell(&mut self, cpu: usize, other: usize, ranges: &[PageRange]) {
        let forgets = self.options.injected_bug == Some(InjectedBug::ForgottenCpu);
        if !forgets || Some(other) != self.last_besides(cpu) {
            ranges.iter().for_each(|&range| self.tlbs[other].flush(range));
        }
    }

    fn last_besides(&self, cpu: usize) -> Option<usize> {
        (0..self.cpus()).rev().find(|&other| other != cpu)
    }

    /// Gives the frames in limbo behind `range` back to the supply.
    fn recycle(&mut self, range: PageRange) {
        let waiting = self.limbo.range((range.start(), 0)..(range.end(), 0));
        for (page, frame) in waiting.copied().collect::<Vec<_>>() {
            self.check_recycling(page, frame);
            self.limbo.remove(&(page, frame));
            self.memory.recycle(frame);
        }
    }

    fn check_recycling(&mut self, page: u64, frame: u64) {
        if self.unflushed.contains(page) {
            self.report(Fault::RecycledBeforeFlush { frame, page });
        }
        let pages: Vec<u64> = self.take_left(frame).chain([page]).collect();
        for (cpu, tlb) in self.tlbs.iter().enumerate() {
            let reaching =
                pages.iter().filter(|&&page| tlb.get(page).is_some_and(|entry| entry.frame == frame));
            self.faults.extend(reaching.map(|&page| Fault::FlushedTooLittle { frame, page, cpu }));
        }
    }
}

fn pages(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(PageRange::len).sum()
}

/// Returns the first half of the pages.
pub(super) fn first_half(ranges: &[PageRange]) -> impl Iterator<Item = PageRange> + '_ {
    let mut left = pages(ranges) / 2;
    ranges.iter().map_while(move |range| {
        let part = PageRange::from_len(range.start(), range.len().min(left))?;
        left -= part.len();
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_pages_may_end_inside_a_range() {
        let range = |start, end| PageRange::new(start, end).unwrap();
        let half = |ranges: &[PageRange]| first_half(ranges).collect::<Vec<_>>();
        assert_eq!(half(&[range(0, 4), range(8, 16)]), [range(0, 4), range(8, 10)]);
        assert_eq!(half(&[range(0, 4), range(8, 12)]), [range(0, 4)]);
        assert_eq!(half(&[range(0, 1)]), []);
    }
}
