//! The parts of a stack: pure arithmetic on addresses.
//!
//! ```text
//!            bottom                                                             top
//!   │ guard  │ …                          │ sentinel │ kept: stays warm        │ guard
//!   (of the     given back when the stack               the first pages that    (of this area;
//!    area below) is dropped, if it was used              are used                below the next)
//! ```
//!
//! The **sentinel** is the page below the kept part. While it reads as zero, no thread went that
//! deep. See [`Shape::is_deep`] for what this misses.

use crate::error::StackError;
use crate::options::StacksOptions;
use std::ptr;
use vmalloc::PageRange;

/// Words that are looked at, at each end of the sentinel: a cache line of 64 bytes.
const WORDS: usize = 64 / size_of::<usize>();

/// The addresses of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) bottom: usize,
    pub(crate) bytes: usize,
}

impl Extent {
    pub(crate) fn top(&self) -> usize {
        self.bottom + self.bytes
    }
}

/// The sizes of a pool, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    page_bytes: usize,
    /// The size of the pool's stacks.
    pub(crate) stack_bytes: usize,
    /// The kept part of such a stack.
    keep_bytes: usize,
    /// The largest stack for which there are addresses, with its guard and that of the span.
    most: usize,
}

impl Shape {
    /// Checks the options of a pool with `span_bytes` of addresses.
    pub(crate) fn of(
        options: &StacksOptions,
        page_bytes: usize,
        span_bytes: usize,
    ) -> Result<Self, StackError> {
        if !options.align.is_power_of_two() || options.align > span_bytes / 2 {
            return Err(StackError::BadAlign { align: options.align });
        }
        let most = span_bytes.saturating_sub(2 * page_bytes);
        let unchecked = Self { page_bytes, stack_bytes: 0, keep_bytes: 0, most };
        let stack_bytes = unchecked.checked(options.stack_bytes)?;
        let keep_bytes = options.keep_bytes.min(stack_bytes).next_multiple_of(page_bytes);
        Ok(Self { stack_bytes, keep_bytes, ..unchecked })
    }

    /// Returns a size, rounded up to pages.
    pub(crate) fn checked(&self, bytes: usize) -> Result<usize, StackError> {
        let (page_bytes, most) = (self.page_bytes, self.most);
        if bytes < page_bytes {
            return Err(StackError::TooSmall { bytes, page_bytes });
        }
        let rounded = bytes.checked_next_multiple_of(page_bytes);
        rounded.filter(|&rounded| rounded <= most).ok_or(StackError::TooLarge { bytes, most })
    }

    /// Returns the budget of a cache that counts whole areas, such that stacks of the pool keep its
    /// `warm_bytes` in it. By [`kept`](Self::kept) those of other sizes keep no more. The options
    /// may still be refused.
    pub(crate) fn cache_bytes(options: &StacksOptions, page_bytes: usize) -> usize {
        let page = page_bytes as u128;
        let stack = (options.stack_bytes as u128).next_multiple_of(page);
        let keep = (options.keep_bytes as u128).min(stack).next_multiple_of(page).max(page);
        let bytes = options.warm_bytes as u128 * (stack + page) / keep;
        // Half of all addresses is more than any cache has.
        bytes.min(isize::MAX as u128) as usize
    }

    /// Returns how many bytes of a stack of `bytes` stay warm, in whole pages.
    #[inline]
    pub(crate) fn kept(&self, bytes: usize) -> usize {
        if bytes >= self.stack_bytes {
            return self.keep_bytes;
        }
        let part = bytes as u128 * self.keep_bytes as u128 / self.stack_bytes as u128;
        part as usize & !(self.page_bytes - 1)
    }

    /// Returns the pages below the kept part.
    pub(crate) fn below_kept(&self, stack: Extent) -> Option<PageRange> {
        let page = |addr: usize| (addr / self.page_bytes) as u64;
        PageRange::new(page(stack.bottom), page(stack.top() - self.kept(stack.bytes)))
    }

    /// Returns whether a dropped stack was used below its kept part, judged by both ends of the
    /// sentinel. O(1), no system call. The first look at a sentinel that was never used takes a
    /// page fault, but no memory: the kernel shows its page of zeros there.
    ///
    /// A frame that steps over both ends without writing to them is missed: an array that was never
    /// filled, of more than a page. Such a stack keeps what it used until the next drain, at most a
    /// second later.
    ///
    /// # Safety
    /// The caller owns the stack, which is mapped, and nothing uses it.
    #[inline]
    pub(crate) unsafe fn is_deep(&self, stack: Extent) -> bool {
        let kept = self.kept(stack.bytes);
        if kept == stack.bytes {
            return false;
        }
        let end = stack.top() - kept;
        // SAFETY: both lines lie in the page below the kept part, which is inside of the stack.
        unsafe { !is_zero(end - self.page_bytes) || !is_zero(end - WORDS * size_of::<usize>()) }
    }
}

/// Returns whether the cache line at `addr` holds zeros alone.
///
/// # Safety
/// It is mapped, aligned, and the caller's.
#[inline]
unsafe fn is_zero(addr: usize) -> bool {
    let line = ptr::with_exposed_provenance::<[usize; WORDS]>(addr);
    // SAFETY: the caller's conditions; any bytes are a number. Volatile: code that the compiler
    // does not see has written there.
    let words = unsafe { line.read_volatile() };
    words == [0; WORDS]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn shape(options: StacksOptions) -> Result<Shape, StackError> {
        Shape::of(&options, PAGE, 1 << 30)
    }

    #[test]
    fn no_mixture_of_sizes_keeps_more_than_the_budget() {
        let warm = 64 << 20;
        for (stack, keep) in [(16, 4), (256, 4), (256, 0), (3, 2), (1, 1), (4, 400)] {
            let options = StacksOptions::new().stack_bytes(stack * PAGE).keep_bytes(keep * PAGE);
            let options = options.warm_bytes(warm);
            let shape = shape(options).unwrap();
            let budget = Shape::cache_bytes(&options, PAGE);
            for pages in 1..2000 {
                let stacks = budget / ((pages + 1) * PAGE);
                let kept = shape.kept(pages * PAGE);
                assert!(kept <= pages * PAGE && kept.is_multiple_of(PAGE));
                assert!(stacks * kept <= warm, "{stacks} stacks of {pages} pages keep {kept} bytes each");
            }
        }
    }

    #[test]
    fn what_is_below_the_kept_part_is_given_back() {
        let shape = shape(StacksOptions::new().stack_bytes(16 * PAGE).keep_bytes(4 * PAGE)).unwrap();
        let stack = Extent { bottom: 100 * PAGE, bytes: 16 * PAGE };
        assert_eq!(shape.below_kept(stack), PageRange::new(100, 112));
        let all = super::Shape { keep_bytes: 16 * PAGE, ..shape };
        assert_eq!(all.below_kept(stack), None);
        let least = self::shape(StacksOptions::new().stack_bytes(16 * PAGE).keep_bytes(1)).unwrap();
        assert_eq!(least.below_kept(stack), PageRange::new(100, 115), "whole pages are kept");
    }
}
