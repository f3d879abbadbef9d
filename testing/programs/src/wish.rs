//! A request as plain data, and the errors that are right for it.

use vmalloc::{PageRange, Policy, Request, RequestError};
use vmalloc_model::Source;

const TAGS: [Option<&str>; 4] = [None, Some("stack"), Some("module"), Some("")];

/// Half of all addresses: 2^63 where a pointer has 64 bits.
const HALF: usize = 1 << (usize::BITS - 1);

/// Sizes that can't be met: none, those that no pages or no pointer can count,
/// and one that could be counted if any span were as large.
const WRONG_SIZES: [usize; 6] = [0, usize::MAX, usize::MAX - 4095, HALF, HALF - 1, HALF / 2];

/// Alignments that are no powers of two, and the largest that is one.
const ODD_ALIGNS: [usize; 6] = [0, 3, 4097, usize::MAX, HALF + 1, HALF];

/// The machine and the settings that a wish is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) span: PageRange,
    pub(crate) shift: u32,
    /// Areas have guards unless their request says otherwise.
    pub(crate) guards: bool,
    pub(crate) nodes: usize,
    /// The most pages of an area, as a rule.
    pub(crate) most: u64,
    /// The most pages of any request that is right.
    pub(crate) largest: u64,
}

/// A request in bytes, right or wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) bytes: usize,
    pub(crate) align: Option<usize>,
    pub(crate) within: Option<(usize, usize)>,
    pub(crate) zeroed: bool,
    without_guard: bool,
    pub(crate) tag: Option<&'static str>,
    pub(crate) record: u64,
    node: Option<usize>,
    policy: Option<Policy>,
    pub(crate) huge: bool,
    pub(crate) no_block: bool,
}

impl Wish {
    /// Returns a wish for so many bytes, and nothing else.
    pub(crate) fn plain(bytes: usize) -> Self {
        let (align, within, tag, node, policy) = Default::default();
        let (zeroed, without_guard, huge, no_block, record) = Default::default();
        Self { bytes, align, within, zeroed, without_guard, tag, record, node, policy, huge, no_block }
    }

    /// Returns a random wish. Half of them are plain.
    pub(crate) fn random(source: &mut dyn Source, place: &Place) -> Self {
        let mut wish = Self::plain(random_bytes(source, place));
        if !source.chance(128) {
            return wish;
        }
        wish.zeroed = source.chance(96);
        wish.without_guard = source.chance(48);
        wish.huge = source.chance(24);
        wish.no_block = source.chance(12);
        wish.tag = TAGS[source.below(4) as usize];
        wish.record = source.below(4);
        if source.chance(64) {
            wish.align = Some(random_align(source, place));
        }
        if source.chance(32) {
            wish.within = Some(random_limits(source, place));
        }
        if source.chance(24) {
            wish.node = Some(source.below(place.nodes as u64 + 1) as usize);
        }
        if source.chance(32) {
            let (middle, bytes) = (place.span.start() + place.span.len() / 2, 1 << place.shift);
            let policies = [Policy::Highest, Policy::Random { seed: 1 }, Policy::Near { to: middle * bytes }];
            wish.policy = Some(policies[source.below(3) as usize]);
        }
        wish
    }

    /// Returns the request as a space takes it.
    pub(crate) fn request(&self) -> Request {
        let mut request = Request::new(self.bytes);
        if self.record != 0 {
            request = request.record(self.record);
        }
        if let Some(align) = self.align {
            request = request.align(align);
        }
        if let Some((start, end)) = self.within {
            request = request.within(start, end);
        }
        if let Some(tag) = self.tag {
            request = request.tag(tag);
        }
        if let Some(node) = self.node {
            request = request.node(node);
        }
        if let Some(policy) = self.policy {
            request = request.policy(policy);
        }
        request = if self.zeroed { request.zeroed() } else { request };
        request = if self.huge { request.huge() } else { request };
        request = if self.no_block { request.may_block(false) } else { request };
        if self.without_guard { request.guard(false) } else { request }
    }

    /// Returns whether its area has a guard page.
    pub(crate) fn has_guard(&self, guards: bool) -> bool {
        guards && !self.without_guard
    }

    /// Returns its pages, guard included.
    pub(crate) fn pages(&self, place: &Place) -> u64 {
        (self.bytes as u64).div_ceil(1 << place.shift) + u64::from(self.has_guard(place.guards))
    }

    /// Returns the alignment in pages.
    pub(crate) fn align_pages(&self, shift: u32) -> u64 {
        (self.align.unwrap_or(1) as u64 >> shift).max(1)
    }

    /// Returns the pages that lie wholly within the limits, first and end: reversed where there are
    /// none.
    fn limits(&self, shift: u32) -> Option<(u64, u64)> {
        self.within.map(|(start, end)| ((start as u64).div_ceil(1 << shift), end as u64 >> shift))
    }

    /// Returns the pages in which it is to be placed.
    pub(crate) fn limit_range(&self, place: &Place) -> Option<PageRange> {
        let Some((start, end)) = self.limits(place.shift) else { return Some(place.span) };
        PageRange::new(start, end)
    }

    /// Returns the errors that are right; none if the wish is right.
    pub(crate) fn errors(&self, place: &Place) -> Vec<RequestError> {
        let mut wrongs = Vec::new();
        if self.bytes == 0 {
            wrongs.push(RequestError::ZeroSize);
        }
        if self.pages(place) > isize::MAX as u64 >> place.shift {
            wrongs.push(RequestError::SizeOverflow { bytes: self.bytes });
        }
        let align = self.align.unwrap_or(1);
        if !align.is_power_of_two() {
            wrongs.push(RequestError::AlignNotPowerOfTwo { align: align as u64 });
        }
        match (self.within, self.limit_range(place)) {
            (Some((start, end)), None) => {
                wrongs.push(RequestError::LimitsReversed { start: start as u64, end: end as u64 });
            }
            (Some(_), Some(asked)) if !place.span.covers(&asked) => {
                let [asked, space] = [asked, place.span].map(|pages| pages.times(1 << place.shift));
                wrongs.push(RequestError::OutsideSpace { asked, space });
            }
            _ => {}
        }
        if let Some(node) = self.node.filter(|node| *node >= place.nodes) {
            wrongs.push(RequestError::NoSuchNode { node, nodes: place.nodes });
        }
        wrongs
    }
}

/// Returns a number of bytes: a few pages, as a rule.
pub(crate) fn random_bytes(source: &mut dyn Source, place: &Place) -> usize {
    let page = 1usize << place.shift;
    let whole = match source.below(64) {
        0..32 => return (1 + source.below(8) as usize) * page,
        32..48 => 1 + source.below(9),
        48..58 => 1 + source.below(64.min(place.most)),
        58..61 => 1 + source.below(300.min(place.most)),
        61 | 62 => 1 + source.below(place.most),
        _ if source.chance(128) => return WRONG_SIZES[source.below(6) as usize],
        _ => 1 + source.below(place.largest),
    };
    whole as usize * page - source.below(page as u64) as usize
}

fn random_align(source: &mut dyn Source, place: &Place) -> usize {
    match source.below(16) {
        0 => ODD_ALIGNS[source.below(6) as usize],
        1 => 1 << source.below(u64::from(usize::BITS - 1)),
        _ => 1 << source.below(u64::from(place.shift) + 9),
    }
}

/// Returns two addresses of the span, one of its ends now and then; or, one time in six, limits
/// that are wrong.
fn random_limits(source: &mut dyn Source, place: &Place) -> (usize, usize) {
    let (first, end) = (place.span.start(), place.span.end());
    let [a, b] = [0, 1].map(|_| source.between(first, end - 1));
    let (low, high) = (a.min(b), a.max(b));
    let addrs = |start: u64, end: u64| ((start as usize) << place.shift, (end as usize) << place.shift);
    match source.below(24) {
        // Reversed, or empty; then outside, in part or all of it.
        0 => addrs(high, low),
        1 => addrs(low, low),
        2 => addrs(source.below(first), high),
        3 => addrs(low, end + 1 + source.below(1 << 20)),
        4 => addrs(end, end + place.span.len()),
        5 => (usize::MAX, 0),
        6 => addrs(first, high),
        7 => addrs(low, end),
        // Not at pages: they lose what they cut.
        8..11 => {
            let (start, end) = addrs(low, high);
            (start + source.below(1 << place.shift) as usize, end + 1)
        }
        _ => addrs(low, high),
    }
}
