//! The trait of `corosensei`.

use crate::growable::Growable;
use crate::stack::Stack;
use corosensei::stack::StackPointer;

// SAFETY:
// - A page below the bottom and one at the top are never mapped, and the limit includes the lower.
// - A stack has a page or more, `MIN_STACK_SIZE`, and its ends are multiples of the page.
// - Neither the stack nor its addresses move with its owner.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        pointer(self.top())
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        pointer(self.guard().start)
    }
}

// SAFETY: as above, and one without a page is refused. Below the part that has memory everything
// traps, down to the guard page, and the limit includes all of it.
unsafe impl corosensei::stack::Stack for Growable {
    /// # Panics
    /// If the stack has no memory yet: see [`Stacks::request`](crate::Stacks::request).
    #[inline]
    fn base(&self) -> StackPointer {
        assert!(!self.is_empty(), "a coroutine needs a stack with memory");
        pointer(self.top())
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        pointer(self.guard().start)
    }
}

#[inline]
fn pointer(addr: usize) -> StackPointer {
    // No page of a pool has the address 0.
    StackPointer::new(addr).unwrap_or(StackPointer::MAX)
}
