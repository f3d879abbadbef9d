//! A request as plain data, and what it comes to: an area to look for, or the errors that are
//! right.

use crate::ask::Ask;
use vmalloc::{AllocError, PageRange, Request, RequestError};

/// A request in bytes, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How many bytes.
    pub bytes: usize,
    /// In bytes.
    pub align: Option<usize>,
    /// Where, in bytes.
    pub within: Option<(usize, usize)>,
    /// Memory that reads as zero.
    pub content: Content,
    /// The guard behind the area.
    pub behind: Behind,
    /// The caller's name for it.
    pub tag: Option<&'static str>,
}

/// The bytes that a new area holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Anything.
    Any,
    /// Zeros.
    Zeros,
}

/// The guard behind an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// The configuration decides.
    Default,
    /// No guard page.
    Nothing,
}

impl Wish {
    /// Returns the request as a space takes it.
    pub fn request(&self) -> Request {
        let mut request = Request::new(self.bytes);
        if let Some(align) = self.align {
            request = request.align(align);
        }
        if let Some((start, end)) = self.within {
            request = request.within(start, end);
        }
        if let Some(tag) = self.tag {
            request = request.tag(tag);
        }
        if self.content == Content::Zeros {
            request = request.zeroed();
        }
        if self.behind == Behind::Nothing { request.without_guard() } else { request }
    }

    /// Returns whether its area has a guard page, in a space whose areas have one by default or
    /// not.
    pub fn has_guard(&self, guards: bool) -> bool {
        guards && self.behind == Behind::Default
    }

    /// Returns the request in pages, guard included, in the space `span`; or the errors that are
    /// right, when it is wrong.
    pub(super) fn ask(&self, span: PageRange, page_shift: u32, guards: bool) -> Result<Ask, Vec<AllocError>> {
        let pages = (self.bytes as u64).div_ceil(1 << page_shift) + u64::from(self.has_guard(guards));
        let mut ask = Ask::new(pages);
        ask.align = (self.align() as u64 >> page_shift).max(1);
        let limits = self.within.map(|within| whole_pages(within, page_shift));
        ask.limits = limits.and_then(|(start, end)| PageRange::new(start, end));
        let mut wrongs: Vec<RequestError> = Vec::new();
        if self.bytes == 0 {
            wrongs.push(RequestError::ZeroSize);
        }
        if pages > isize::MAX as u64 >> page_shift {
            wrongs.push(RequestError::SizeOverflow { bytes: self.bytes });
        }
        if !self.align().is_power_of_two() {
            wrongs.push(RequestError::AlignNotPowerOfTwo { align: self.align() as u64 });
        }
        match (limits, ask.limits) {
            (Some((start, end)), None) => wrongs.push(RequestError::LimitsReversed { start, end }),
            (_, Some(asked)) if !span.covers(&asked) => {
                wrongs.push(RequestError::OutsideSpace { asked, space: span });
            }
            _ => {}
        }
        if wrongs.is_empty() { Ok(ask) } else { Err(wrongs.into_iter().map(AllocError::from).collect()) }
    }

    /// Returns the alignment in bytes, 1 if none was asked for.
    pub(super) fn align(&self) -> usize {
        self.align.unwrap_or(1)
    }
}

/// Returns the pages that lie wholly between two addresses, first and end; reversed where there are
/// none.
fn whole_pages((start, end): (usize, usize), page_shift: u32) -> (u64, u64) {
    ((start as u64).div_ceil(1 << page_shift), end as u64 >> page_shift)
}
