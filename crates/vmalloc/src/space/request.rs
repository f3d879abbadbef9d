//! A request in bytes, as callers make it, and its check against the machine's pages.

use crate::PageRange;
use crate::RequestError;
use crate::areas::{AreaInfo, Blocking, Placement, Tag};
use crate::{Fit, Policy};
use core::alloc::Layout;

/// A request for memory or addresses, in bytes.
///
/// ```
/// # use vmalloc::Request;
/// let request = Request::new(100_000).align(1 << 16).zeroed().tag("frame buffer");
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Request {
    bytes: usize,
    align: usize,
    /// True if anything but size and alignment was asked for.
    special: bool,
    /// True if anything but these and a record was asked for.
    odd: bool,
    pub(super) has_record: bool,
    pub(super) content: Content,
    pub(super) guard: bool,
    pub(super) tag: Option<Tag>,
    pub(super) record: u64,
    pub(super) node: Option<usize>,
    pub(super) placement: Placement,
    blocking: Blocking,
}

impl From<Layout> for Request {
    fn from(layout: Layout) -> Self {
        Self::new(layout.size()).align(layout.align())
    }
}

/// The pages that memory comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageSize {
    Base,
    /// As many huge ones as there are.
    Huge,
}

/// The content of the memory when it is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Zeros, or bytes that an earlier area of this space left.
    Any,
    Zeros,
}

/// A request that passed its check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// The request to the area map: the guard page is in its size.
    pub(super) fit: Fit,
    /// 1 with a guard page, else 0.
    pub(super) guard_pages: u64,
    pub(super) size: PageSize,
    pub(super) blocking: Blocking,
}

impl Request {
    /// Asks for `bytes` bytes, rounded up to pages, at any page. The guard page comes on top. A
    /// call that takes the request refuses 0 with [`RequestError::ZeroSize`].
    #[inline(always)]
    pub const fn new(bytes: usize) -> Self {
        Self {
            bytes,
            align: 1,
            special: false,
            odd: false,
            has_record: false,
            content: Content::Any,
            guard: true,
            tag: None,
            record: 0,
            node: None,
            placement: Placement::USUAL,
            blocking: Blocking::Allowed,
        }
    }

    setters! {
        /// Asks for a start at a multiple of `bytes`, a power of two. A call that takes the request
        /// refuses anything else with [`RequestError::AlignNotPowerOfTwo`]. Areas always start at a
        /// page.
        align(bytes: usize) { align = bytes }

        /// Asks for zeros.
        zeroed() { special = true, odd = true, content = Content::Zeros }

        /// Sets whether there is an unmapped page behind the area, if the space has guards.
        /// Default: yes.
        guard(guard: bool) { special = true, odd = true, guard = guard }

        /// Stays inside the addresses `[start, end)`, the guard page too. Pages that are only
        /// partly inside don't count; limits without a whole page are refused with
        /// [`RequestError::LimitsReversed`], those that leave the space with
        /// [`RequestError::OutsideSpace`].
        within(start: usize, end: usize) { special = true, odd = true, placement.within = Some((start, end)) }

        /// Gives the area a word of its owner's, a pointer or a number, which
        /// [`Space::find`](crate::Space::find) tells for each address inside: so the owner of an
        /// address is found without a map of one's own. It may be
        /// [set later](crate::Raw::set_record). A call that takes the request refuses 0, which
        /// stands for none, with [`RequestError::ZeroRecord`].
        ///
        /// ```
        /// # use vmalloc::{AllocError, Platform, Request, Space};
        /// # fn example<P: Platform>(space: &Space<P>) -> Result<(), AllocError> {
        /// let addr = space.raw().alloc(&Request::new(100_000).record(7))?;
        /// assert_eq!(space.find(addr + 50_000).map(|area| area.record), Some(7));
        /// # Ok(())
        /// # }
        /// ```
        record(record: u64) { special = true, has_record = true, record = record }

        /// Takes memory that node `node` of the space has freed, where there is some. When it is
        /// freed and purged, its addresses go back to that node. A memory node is asked for by a
        /// context: see [`Raw::with`](crate::Raw::with).
        node(node: usize) { special = true, odd = true, node = Some(node) }

        /// Places by `policy`, whatever the space's options say.
        policy(policy: Policy) { special = true, odd = true, placement.policy = Some(policy) }

        /// Places as near to an address as can be: see [`Policy::Near`]. How far away an area may
        /// lie is for [`within`](Self::within) to say. No area that waits for reuse serves it.
        ///
        /// ```
        /// # use vmalloc::{AllocError, Platform, Request, Space};
        /// # fn example<P: Platform>(space: &Space<P>, caller: usize) -> Result<(), AllocError> {
        /// let callee = space.raw().alloc(&Request::new(100_000).near(caller))?;
        /// # Ok(())
        /// # }
        /// ```
        near(addr: usize) { special = true, odd = true, placement.policy = Some(Policy::Near { to: addr as u64 }) }

        /// Uses huge pages where the area has room for one and the machine has some; base pages
        /// elsewhere. An area with room for a huge page begins at one, where there is such a place,
        /// whichever call makes it.
        huge() { special = true, odd = true, placement.is_huge = true }

        /// Sets whether the call may wait for a purge or ask notifiers. If not, it fails instead,
        /// and takes locks for a bounded time alone. Default: yes.
        may_block(may: bool) { special = true, odd = true, blocking = if may { Blocking::Allowed } else { Blocking::Forbidden } }
    }

    /// Names the caller, for reports.
    #[inline]
    pub fn tag(mut self, tag: impl Into<Tag>) -> Self {
        self.special = true;
        self.odd = true;
        self.tag = Some(tag.into());
        self
    }

    /// Returns the request in pages of `1 << page_shift` bytes, without a guard page: lowest first
    /// unless it has another policy.
    ///
    /// # Errors
    /// [`RequestError`]: size, alignment or limits are wrong for pages of that size.
    pub fn fit(&self, page_shift: u32) -> Result<Fit, RequestError> {
        self.check(page_shift, false, Policy::Lowest, None).map(|checked| checked.fit)
    }

    /// Returns the bytes asked for.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the alignment asked for, in bytes.
    #[must_use]
    pub const fn alignment(&self) -> usize {
        self.align
    }

    /// Returns bytes and alignment, if that is all that was asked for.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<(usize, usize)> {
        if self.special { None } else { Some((self.bytes, self.align)) }
    }

    /// Returns bytes and alignment, if that is all that was asked for but for a record.
    #[inline(always)]
    pub(super) fn usual(&self) -> Option<(usize, usize)> {
        let is_usual = !self.odd && (!self.has_record || self.record != 0);
        is_usual.then_some((self.bytes, self.align))
    }

    /// Checks the request for pages of `1 << shift` bytes.
    #[inline]
    pub(super) fn check(
        &self,
        shift: u32,
        space_guards: bool,
        policy: Policy,
        huge_order: Option<u32>,
    ) -> Result<Checked, RequestError> {
        if self.bytes == 0 {
            return Err(RequestError::ZeroSize);
        }
        if self.has_record && self.record == 0 {
            return Err(RequestError::ZeroRecord);
        }
        let (page, guard_pages) = (1usize << shift, usize::from(space_guards && self.guard));
        let padded = self.bytes.checked_add(page - 1 + (guard_pages << shift));
        let Some(padded) = padded.filter(|&padded| padded <= isize::MAX as usize) else {
            return Err(RequestError::SizeOverflow { bytes: self.bytes });
        };
        let pages = padded >> shift;
        if !self.align.is_power_of_two() {
            return Err(RequestError::AlignNotPowerOfTwo { align: self.align as u64 });
        }
        let fit = Fit::new(pages as u64).align((self.align >> shift).max(1) as u64);
        let mut fit = match self.placement.policy.unwrap_or(policy) {
            Policy::Lowest => fit,
            Policy::Near { to } => fit.near(to >> shift),
            policy => fit.policy(policy),
        };
        if let Some((start, end)) = self.placement.within {
            fit = self.limit(fit, start, end, shift)?;
        }
        // Base pages where no huge page fits in.
        let has_huge_page = |order| (pages - guard_pages) >> order != 0;
        let is_huge = self.placement.is_huge && huge_order.is_some_and(has_huge_page);
        let size = if is_huge { PageSize::Huge } else { PageSize::Base };
        Ok(Checked { fit, guard_pages: guard_pages as u64, size, blocking: self.blocking })
    }

    #[cold]
    fn limit(&self, fit: Fit, start: usize, end: usize, shift: u32) -> Result<Fit, RequestError> {
        let first = (start >> shift) as u64 + u64::from(start & ((1 << shift) - 1) != 0);
        let limits = PageRange::new(first, (end >> shift) as u64);
        let limits = limits.ok_or(RequestError::LimitsReversed { start: start as u64, end: end as u64 })?;
        Ok(fit.within(limits.start(), limits.end()))
    }
}

/// A new size for an area that is there, in bytes, for [`Raw::realloc`](super::Raw::realloc).
///
/// It has what a caller can change about an area. Everything else stays the area's: its guard, tag,
/// record, limits, policy and pages, as the request for it said or else its space.
///
/// ```
/// # use vmalloc::Resize;
/// let resize = Resize::new(200_000).align(1 << 16).zeroed();
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Resize {
    bytes: usize,
    align: usize,
    pub(super) content: Content,
    blocking: Blocking,
}

impl Resize {
    /// Asks for `bytes` bytes, rounded up to pages, at any page. A call that takes it refuses 0
    /// with [`RequestError::ZeroSize`].
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, align: 1, content: Content::Any, blocking: Blocking::Allowed }
    }

    setters! {
        /// Asks for a start at a multiple of `bytes`, a power of two: an area that starts elsewhere
        /// moves. A call that takes it refuses anything else with
        /// [`RequestError::AlignNotPowerOfTwo`].
        align(bytes: usize) { align = bytes }

        /// Asks for zeros in the bytes that are new.
        zeroed() { content = Content::Zeros }

        /// Sets whether the call may wait for a purge or ask notifiers. If not, an area that can't
        /// grow without is refused, and one that can't shrink without keeps its pages. Default:
        /// yes.
        may_block(may: bool) { blocking = if may { Blocking::Allowed } else { Blocking::Forbidden } }
    }

    /// Returns the request for an area like `area`, which was placed in this way, of the new size.
    pub(super) fn like(&self, area: &AreaInfo, placement: Placement) -> Request {
        let Self { bytes, align, content, blocking } = *self;
        let AreaInfo { guard, tag, record, .. } = *area;
        Request {
            align,
            special: true,
            odd: true,
            has_record: record != 0,
            content,
            guard,
            tag,
            record,
            placement,
            blocking,
            ..Request::new(bytes)
        }
    }

    /// Returns the bytes asked for.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: Request) -> Result<Checked, RequestError> {
        request.check(12, true, Policy::Lowest, None)
    }

    #[test]
    fn sizes_round_up_and_count_their_guard() {
        for (bytes, pages) in [(1, 1), (4096, 1), (4097, 2)] {
            assert_eq!(check(Request::new(bytes)).unwrap().fit.pages(), pages + 1);
            assert_eq!(check(Request::new(bytes).guard(false)).unwrap().fit.pages(), pages);
        }
    }

    #[test]
    fn sizes_may_reach_isize_max_with_their_guard_and_no_further() {
        let most = (isize::MAX as usize & !4095) - 4096;
        assert_eq!(check(Request::new(most)).unwrap().fit.pages(), isize::MAX as u64 >> 12);
        let half = isize::MAX as usize + 1;
        for bytes in [most + 1, half, usize::MAX - 8191, usize::MAX - 4096, usize::MAX - 4, usize::MAX] {
            assert_eq!(check(Request::new(bytes)).unwrap_err(), RequestError::SizeOverflow { bytes });
        }
        assert!(check(Request::new(most + 1).guard(false)).is_ok());
        assert!(check(Request::new(most + 4097).guard(false)).is_err());
    }

    #[test]
    fn an_address_to_be_near_is_counted_in_pages() {
        let near = Request::new(1).near(0x5fff);
        assert_eq!(check(near).unwrap().fit.placement(), Policy::Near { to: 5 });
        let space_is_near = Request::new(1).check(12, true, Policy::Near { to: 0x5000 }, None);
        assert_eq!(space_is_near.unwrap().fit.placement(), Policy::Near { to: 5 });
    }

    #[test]
    fn bad_requests_are_typed_errors() {
        assert_eq!(check(Request::new(0)).unwrap_err(), RequestError::ZeroSize);
        for align in [0, 3, 4097, (1 << (usize::BITS - 1)) + 1, usize::MAX] {
            let error = check(Request::new(1).align(align)).unwrap_err();
            assert_eq!(error, RequestError::AlignNotPowerOfTwo { align: align as u64 });
        }
        let reversed = check(Request::new(1).within(0x5000, 0x3000)).unwrap_err();
        assert_eq!(reversed, RequestError::LimitsReversed { start: 0x5000, end: 0x3000 });
        let no_page = check(Request::new(1).within(0x1001, 0x1fff)).unwrap_err();
        assert_eq!(no_page, RequestError::LimitsReversed { start: 0x1001, end: 0x1fff });
    }
}
