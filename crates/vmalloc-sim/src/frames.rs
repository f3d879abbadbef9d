//! The frames of physical memory: a bounded supply, each with its owner and one word of content.

/// All frames, numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    /// Those that were ever taken.
    frames: Vec<Frame>,
    /// Recycled ones. The last recycled is taken first, so that who still reaches it is noticed soonest.
    free: Vec<u64>,
    limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    content: u64,
    /// The page that it was taken for; none in the supply.
    owner: Option<u64>,
}

impl Frames {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { frames: Vec::new(), free: Vec::new(), limit }
    }

    /// A zeroed frame for `page`, if there is one left.
    pub(crate) fn take(&mut self, page: u64) -> Option<u64> {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None if (self.frames.len() as u64) < self.limit => {
                self.frames.push(Frame { content: 0, owner: None });
                self.frames.len() as u64 - 1
            }
            None => return None,
        };
        self.frames[frame as usize] = Frame { content: 0, owner: Some(page) };
        Some(frame)
    }

    /// Gives `frame` back. Its content stays, as in a real memory, for who still reaches it to see.
    pub(crate) fn recycle(&mut self, frame: u64) {
        debug_assert!(self.owner(frame).is_some(), "frame {frame} is in the supply already");
        self.frames[frame as usize].owner = None;
        self.free.push(frame);
    }

    pub(crate) fn owner(&self, frame: u64) -> Option<u64> {
        self.frames[frame as usize].owner
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let numbered = (0u64..).zip(&self.frames);
        numbered.filter_map(|(number, frame)| frame.owner.map(|page| (number, page)))
    }

    pub(crate) fn content(&self, frame: u64) -> u64 {
        self.frames[frame as usize].content
    }

    pub(crate) fn fill(&mut self, frame: u64, word: u64) {
        self.frames[frame as usize].content = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supply_is_bounded_zeroed_and_last_in_first_out() {
        let mut frames = Frames::new(2);
        let (a, b) = (frames.take(10).unwrap(), frames.take(11).unwrap());
        assert_eq!(frames.take(12), None);
        frames.fill(b, 7);
        frames.recycle(a);
        frames.recycle(b);
        assert_eq!((frames.content(b), frames.owner(b)), (7, None));
        assert_eq!(frames.take(13), Some(b));
        assert_eq!((frames.content(b), frames.owner(b)), (0, Some(13)));
        assert!(frames.owned().eq([(b, 13)]));
    }
}
