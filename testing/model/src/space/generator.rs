//! Programs for spaces, from choices.

use super::null_platform::Call;
use super::op::{SpaceOp, Target};
use super::wish::{Behind, Content, Wish};
use crate::source::Source;
use vmalloc::PageRange;

/// Makes one operation after another for a space of these pages.
#[derive(Clone, Debug)]
pub struct SpaceGenerator<S> {
    source: S,
    span: PageRange,
    page_shift: u32,
    /// Live areas aimed at.
    live: usize,
    /// In 256 operations, how many arm a fault.
    faults: u8,
    step: usize,
}

const TAGS: [Option<&str>; 4] = [None, Some("stack"), Some("module"), Some("")];

/// Sizes that can't be met: none, those that no pages or no pointer can count (2^63 among them),
/// and one that could be counted if any span were as large.
const WRONG_SIZES: [usize; 6] =
    [0, usize::MAX, usize::MAX - 4095, isize::MAX as usize + 1, isize::MAX as usize, 1 << 62];

/// Alignments that are no powers of two, and the largest that is one.
const ODD_ALIGNS: [usize; 6] = [0, 3, 4097, usize::MAX, (1 << 63) + 1, 1 << 63];

impl<S: Source> SpaceGenerator<S> {
    /// Operations chosen by `source` for `span`, in pages of `2^page_shift` bytes.
    pub const fn new(source: S, span: PageRange, page_shift: u32) -> Self {
        Self { source, span, page_shift, live: 100, faults: 0, step: 0 }
    }

    /// Aims at `live` live areas at a time.
    #[must_use]
    pub const fn live(mut self, live: usize) -> Self {
        self.live = live;
        self
    }

    /// Arms a platform fault `rate` times in 256.
    #[must_use]
    pub const fn faults(mut self, rate: u8) -> Self {
        self.faults = rate;
        self
    }

    /// Returns the next operation, when `live` areas are in use; `None` when the source has no more
    /// choices.
    pub fn next(&mut self, live: usize) -> Option<SpaceOp> {
        if self.source.is_exhausted() {
            return None;
        }
        self.step += 1;
        if self.source.chance(self.faults) {
            return Some(self.fail());
        }
        // Every so often a long ebb, so that everything is freed, purged and used again.
        let ebb = self.step % (8 * self.live) > 6 * self.live;
        let takes = if ebb || live > self.live { 5 } else { 12 };
        Some(match self.source.below(24) {
            0..20 if self.source.below(16) < takes => self.take(),
            0..20 => self.give(),
            20 => self.rarely(),
            _ => SpaceOp::Find(self.any_target()),
        })
    }

    fn take(&mut self) -> SpaceOp {
        let wish = self.wish();
        if self.source.chance(40) { SpaceOp::Reserve(wish) } else { SpaceOp::Alloc(wish) }
    }

    fn give(&mut self) -> SpaceOp {
        let target = if self.source.chance(24) { self.any_target() } else { Target::Live(self.nth()) };
        if self.source.chance(48) { SpaceOp::Unreserve(target) } else { SpaceOp::Vfree(target) }
    }

    fn rarely(&mut self) -> SpaceOp {
        match self.source.below(8) {
            0 => SpaceOp::Purge,
            1 => SpaceOp::Walk,
            _ => SpaceOp::Move(self.source.below(64) as usize),
        }
    }

    fn fail(&mut self) -> SpaceOp {
        let call = [Call::Map, Call::Unmap, Call::Flush][self.source.below(3) as usize];
        SpaceOp::Fail(call, 1 + self.source.below(4))
    }

    fn wish(&mut self) -> Wish {
        Wish {
            bytes: self.bytes(),
            align: if self.source.chance(48) { Some(self.align()) } else { None },
            within: if self.source.chance(24) { Some(self.limits()) } else { None },
            content: if self.source.chance(64) { Content::Zeros } else { Content::Any },
            behind: if self.source.chance(32) { Behind::Nothing } else { Behind::Default },
            tag: TAGS[self.source.below(4) as usize],
        }
    }

    fn bytes(&mut self) -> usize {
        match self.source.below(64) {
            0 => WRONG_SIZES[self.source.below(6) as usize],
            1 => (self.source.between(1, 2 * self.span.len()) as usize) << self.page_shift,
            2..8 => self.source.magnitude(0, self.page_shift + 8) as usize,
            8..40 => (self.source.between(1, 8) as usize) << self.page_shift,
            _ => self.source.magnitude(0, self.page_shift + 4) as usize,
        }
    }

    fn align(&mut self) -> usize {
        match self.source.below(16) {
            0 => ODD_ALIGNS[self.source.below(6) as usize],
            1 => 1 << self.source.below(63),
            _ => 1 << self.source.below(u64::from(self.page_shift) + 9),
        }
    }

    /// Returns two addresses of the space, one of its ends now and then; or, one time in eight,
    /// limits that are wrong.
    fn limits(&mut self) -> (usize, usize) {
        let (a, b) = (self.page(), self.page());
        let (low, high) = (a.min(b), a.max(b));
        let (first, end) = (self.span.start(), self.span.end());
        match self.source.below(32) {
            // Reversed, or empty.
            0 => self.addrs(high, low),
            1 => self.addrs(low, low),
            // Outside, in part or all of it.
            2 => {
                let start = self.source.below(first);
                self.addrs(start, high)
            }
            3 => {
                let beyond = self.source.magnitude(0, 40);
                self.addrs(low, end + beyond)
            }
            4 => self.addrs(end, end + self.span.len()),
            5 => (0, usize::MAX),
            6 => (self.source.bits(64) as usize, self.source.bits(64) as usize),
            7 => (usize::MAX, 0),
            8 => self.addrs(first, high),
            9 => self.addrs(low, end),
            // Not at pages: they lose what they cut.
            10..14 => {
                let (start, end) = self.addrs(low, high);
                (start + self.source.below(1 << self.page_shift) as usize, end + 1)
            }
            _ => self.addrs(low, high),
        }
    }

    const fn addrs(&self, start: u64, end: u64) -> (usize, usize) {
        ((start as usize) << self.page_shift, (end as usize) << self.page_shift)
    }

    fn any_target(&mut self) -> Target {
        match self.source.below(6) {
            0 => Target::Live(self.nth()),
            1 => Target::Freed(self.nth()),
            2 => Target::Address(self.source.bits(64) as usize),
            3 => Target::Address((self.page() as usize) << self.page_shift),
            4 => Target::Inside(self.nth(), (self.source.below(300) as usize) << self.page_shift),
            _ => Target::Inside(self.nth(), self.source.magnitude(0, self.page_shift + 8) as usize),
        }
    }

    fn page(&mut self) -> u64 {
        self.source.between(self.span.start(), self.span.end() - 1)
    }

    fn nth(&mut self) -> u32 {
        self.source.bits(16) as u32
    }
}
