//! The frames of physical memory: a bounded supply, and devices above it. Each has one word of
//! content.
//!
//! ```text
//!   0                      supply                       limit      devices
//!   ├──────┬─────────────┬──────┬────────────────────────┼───────────────┤
//!   │ free │ some page's │ free │ the user's             │ unused        │
//!   └──────┴─────────────┴──────┴────────────────────────┴───────────────┘
//! ```

/// The holder of a frame of the supply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// No page: it may be taken.
    Supply,
    /// This page, for which `map` took it.
    Page(u64),
    /// The caller that took it by `take_frames` or `take_run`.
    User,
}

/// All frames, numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Those that were ever taken, and those below them.
    frames: Vec<Frame>,
    /// Free ones among these. The last recycled is taken first, so that a CPU that still reaches it
    /// is noticed soonest.
    free: Vec<u64>,
    limit: u64,
    /// The content of the devices' frames, which follow the supply's.
    devices: Vec<u64>,
    /// New pages are of any content but zero.
    is_dirty: bool,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    content: u64,
    holder: Holder,
    /// How often it was given back by a user.
    life: u64,
}

impl Memory {
    pub(crate) fn new(limit: u64, devices: u64, is_dirty: bool) -> Self {
        let devices = (limit..limit + devices).map(junk).collect();
        Self { frames: Vec::new(), free: Vec::new(), limit, devices, is_dirty }
    }

    pub(crate) fn is_device(&self, frame: u64) -> bool {
        frame.checked_sub(self.limit).is_some_and(|nth| nth < self.devices.len() as u64)
    }

    /// Returns a frame for `page`, of the content that new pages have, if there is one left.
    pub(crate) fn take(&mut self, page: u64) -> Option<u64> {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None if (self.frames.len() as u64) < self.limit => {
                self.grow(self.frames.len() as u64 + 1);
                self.free.pop()?
            }
            None => return None,
        };
        self.hand_out(frame, Holder::Page(page), self.fresh(frame));
        Some(frame)
    }

    /// Returns consecutive frames, of the content that new pages have, for the pages from `page`
    /// on, the first at a multiple of their number.
    pub(crate) fn take_huge(&mut self, page: u64, count: u64) -> Option<u64> {
        let base = self.claim_run(count, count)?;
        (0..count)
            .for_each(|nth| self.hand_out(base + nth, Holder::Page(page + nth), self.fresh(base + nth)));
        Some(base)
    }

    /// Returns the word that a page finds in `frame` when it gets it.
    fn fresh(&self, frame: u64) -> u64 {
        if self.is_dirty { junk(frame) } else { 0 }
    }

    /// Takes so many frames of any content for a user, or none.
    pub(crate) fn take_many(&mut self, count: u64) -> Option<Vec<u64>> {
        let untouched = self.limit - self.frames.len() as u64;
        let short = count.saturating_sub(self.free.len() as u64);
        if short > untouched {
            return None;
        }
        self.grow(self.frames.len() as u64 + short);
        let taken = self.free.split_off(self.free.len() - count as usize);
        taken.iter().for_each(|&frame| self.hand_out(frame, Holder::User, junk(frame)));
        Some(taken)
    }

    /// Takes consecutive frames of any content for a user. Returns the first.
    pub(crate) fn take_run(&mut self, count: u64, align: u64) -> Option<u64> {
        let base = self.claim_run(count, align)?;
        (base..base + count).for_each(|frame| self.hand_out(frame, Holder::User, junk(frame)));
        Some(base)
    }

    /// Makes `frame`, some page's, another page's.
    pub(crate) fn reassign(&mut self, frame: u64, page: u64) {
        debug_assert!(self.owner(frame).is_some(), "frame {frame} is no page's");
        self.frames[frame as usize].holder = Holder::Page(page);
    }

    /// Gives `frame`, some page's, back. Its content stays, as in a real memory, for a CPU that
    /// still reaches it to see.
    pub(crate) fn recycle(&mut self, frame: u64) {
        debug_assert!(self.owner(frame).is_some(), "frame {frame} is in the supply already");
        self.frames[frame as usize].holder = Holder::Supply;
        self.free.push(frame);
    }

    /// Gives `frame`, a user's, back.
    pub(crate) fn give(&mut self, frame: u64) {
        debug_assert_eq!(self.holder(frame), Some(Holder::User), "frame {frame} was not taken");
        let record = &mut self.frames[frame as usize];
        record.holder = Holder::Supply;
        record.life += 1;
        self.free.push(frame);
    }

    /// Returns the holder of `frame`; none if it is not the supply's.
    pub(crate) fn holder(&self, frame: u64) -> Option<Holder> {
        let record = self.frames.get(usize::try_from(frame).ok()?);
        record.map(|record| record.holder).or((frame < self.limit).then_some(Holder::Supply))
    }

    /// Returns the page that `frame` was taken for.
    pub(crate) fn owner(&self, frame: u64) -> Option<u64> {
        match self.holder(frame) {
            Some(Holder::Page(page)) => Some(page),
            _ => None,
        }
    }

    /// Returns how often a user has given `frame` back: an entry made before the last time leads to
    /// another owner's frame.
    pub(crate) fn life(&self, frame: u64) -> u64 {
        self.frames.get(frame as usize).map_or(0, |record| record.life)
    }

    /// Returns the frames that pages have, with their pages.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let frames = 0..self.frames.len() as u64;
        frames.filter_map(|frame| self.owner(frame).map(|page| (frame, page)))
    }

    /// Returns the frames that users have.
    pub(crate) fn taken(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.frames.len() as u64).filter(|&frame| self.holder(frame) == Some(Holder::User))
    }

    pub(crate) fn content(&self, frame: u64) -> u64 {
        match self.is_device(frame) {
            true => self.devices[(frame - self.limit) as usize],
            false => self.frames[frame as usize].content,
        }
    }

    pub(crate) fn fill(&mut self, frame: u64, word: u64) {
        match self.is_device(frame) {
            true => self.devices[(frame - self.limit) as usize] = word,
            false => self.frames[frame as usize].content = word,
        }
    }

    fn hand_out(&mut self, frame: u64, holder: Holder, content: u64) {
        let record = &mut self.frames[frame as usize];
        (record.holder, record.content) = (holder, content);
    }

    /// Takes the lowest run of free frames out of the free ones.
    fn claim_run(&mut self, count: u64, align: u64) -> Option<u64> {
        let base = self.find_run(count, align)?;
        let run = base..base + count;
        self.grow(run.end);
        self.free.retain(|frame| !run.contains(frame));
        Some(base)
    }

    fn find_run(&self, count: u64, align: u64) -> Option<u64> {
        let mut base = 0u64;
        while base.checked_add(count)? <= self.limit {
            let busy = (base..base + count).rev().find(|&frame| self.holder(frame) != Some(Holder::Supply));
            match busy {
                Some(busy) => base = (busy + 1).checked_next_multiple_of(align)?,
                None => return Some(base),
            }
        }
        None
    }

    /// Has records for `count` frames at least; new ones are free.
    fn grow(&mut self, count: u64) {
        let fresh = self.frames.len() as u64..count;
        self.frames.extend(fresh.clone().map(|_| Frame { content: 0, holder: Holder::Supply, life: 0 }));
        self.free.extend(fresh.rev());
    }
}

/// Returns the word of a frame that was not zeroed: never zero, and another for each frame.
const fn junk(frame: u64) -> u64 {
    0xdead_beef_0000_0000 | (frame & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_lowest_and_leave_what_is_between() {
        let mut memory = Memory::new(16, 0, false);
        assert_eq!(memory.take(10), Some(0));
        assert_eq!(
            (memory.take_run(3, 4), memory.take_huge(20, 8), memory.take_run(3, 1)),
            (Some(4), Some(8), Some(1))
        );
        assert_eq!((memory.take_run(2, 1), memory.owner(9)), (None, Some(21)));
        assert_eq!((memory.take(11), memory.take(12)), (Some(7), None));
        (4..7).for_each(|frame| memory.give(frame));
        assert_eq!((memory.take_run(2, 2), memory.take_run(u64::MAX, 1)), (Some(4), None));
    }
}
