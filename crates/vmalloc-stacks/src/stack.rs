//! The owner of one stack.

use crate::pool::Pool;
use crate::recycle::Way;
use crate::shape::Extent;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// An owned stack with guards on both sides: the page below its bottom and the page at its top are
/// never mapped. Any thread may drop it.
///
/// A program that switches to the stack starts at [`top`](Self::top), and drops the stack when
/// nothing runs on it any more.
pub struct Stack {
    pool: ManuallyDrop<Arc<Pool>>,
    extent: Extent,
    way: Way,
}

impl Stack {
    #[inline]
    pub(crate) fn new(pool: Arc<Pool>, extent: Extent, way: Way) -> Self {
        Self { pool: ManuallyDrop::new(pool), extent, way }
    }

    /// Returns the address behind the highest byte, a multiple of the page size: where an empty
    /// stack begins.
    #[inline]
    #[must_use]
    pub fn top(&self) -> usize {
        self.extent.top()
    }

    /// Returns the address of the lowest byte, a multiple of the page size.
    #[inline]
    #[must_use]
    pub fn bottom(&self) -> usize {
        self.extent.bottom
    }

    /// Returns how many bytes the stack has, the guards not counted.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a stack without bytes is not made")]
    pub fn len(&self) -> usize {
        self.extent.bytes
    }

    /// Returns the addresses of the guard page below the bottom.
    #[must_use]
    pub fn guard(&self) -> Range<usize> {
        self.extent.bottom - self.pool.space.geometry().page_bytes()..self.extent.bottom
    }
}

impl Drop for Stack {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let pool = unsafe { ManuallyDrop::take(&mut self.pool) };
        pool.recycle(self.extent, self.way);
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({:#x}..{:#x})", self.bottom(), self.top())
    }
}
