//! A request as plain data, and what it comes to: an area to look for, or the errors that are right.

use crate::ask::Ask;
use vmalloc::{AllocError, PageRange, Request, RequestError};

/// A request in bytes, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How many bytes.
    pub bytes: usize,
    /// In bytes; 0 = none was asked for.
    pub align: usize,
    /// Where, in bytes; whole pages.
    pub within: Option<(usize, usize)>,
    /// Memory that reads as zero.
    pub content: Content,
    /// What stands behind the area.
    pub behind: Behind,
    /// The caller's name for it.
    pub tag: Option<&'static str>,
}

/// What a new area holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Anything.
    Any,
    /// Zeros.
    Zeros,
}

/// What stands behind an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// What the configuration says.
    Default,
    /// No guard page.
    Nothing,
}

impl Wish {
    /// The request as a space takes it.
    pub fn request(&self) -> Request {
        let mut request = Request::new(self.bytes);
        if self.align != 0 {
            request = request.align(self.align);
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

    /// Whether its area has a guard page, in a space whose areas have one by default or not.
    pub fn has_guard(&self, guards: bool) -> bool {
        guards && self.behind == Behind::Default
    }

    /// What it comes to in pages, guard included, in the space `span`; or the errors that are right, when it is wrong.
    pub(super) fn ask(&self, span: PageRange, page_shift: u32, guards: bool) -> Result<Ask, Vec<AllocError>> {
        let pages = (self.bytes as u64).div_ceil(1 << page_shift) + u64::from(self.has_guard(guards));
        let mut ask = Ask::new(pages);
        ask.align = (self.align as u64 >> page_shift).max(1);
        ask.limits = self
            .within
            .and_then(|(start, end)| PageRange::new(start as u64 >> page_shift, end as u64 >> page_shift));
        let wrongs = self.wrongs(&ask, span, page_shift);
        if wrongs.is_empty() { Ok(ask) } else { Err(wrongs) }
    }

    fn wrongs(&self, ask: &Ask, space: PageRange, page_shift: u32) -> Vec<AllocError> {
        let mut wrongs: Vec<AllocError> = Vec::new();
        if self.bytes == 0 {
            wrongs.push(RequestError::ZeroSize.into());
        }
        if ask.pages > isize::MAX as u64 >> page_shift {
            wrongs.push(RequestError::SizeOverflow { bytes: self.bytes }.into());
        }
        if self.align != 0 && !self.align.is_power_of_two() {
            wrongs.push(RequestError::AlignNotPowerOfTwo { align: self.align as u64 }.into());
        }
        if let Some(asked) = ask.limits.filter(|limits| !space.covers(limits)) {
            wrongs.push(RequestError::OutsideSpace { asked, space }.into());
        }
        wrongs
    }
}
