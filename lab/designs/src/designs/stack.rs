//! A stack that never moves what it holds: lazy areas, pushed under locks that everybody takes.
//!
//! Linux links areas through themselves, so a free costs the same whatever waits. An array that
//! grows would copy all of it now and then, with the lock held. Pieces do not grow: a push makes
//! one, at worst.

/// Items of a piece: 64 KiB of areas, which an allocator hands out without asking the system.
const PIECE: usize = 4_096;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Stack<T> {
    full: Vec<Vec<T>>,
    top: Vec<T>,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Self { full: Vec::new(), top: Vec::new() }
    }
}

impl<T> Stack<T> {
    pub(super) fn push(&mut self, item: T) {
        if self.top.len() == self.top.capacity() {
            let piece = Vec::with_capacity(PIECE);
            let full = std::mem::replace(&mut self.top, piece);
            if !full.is_empty() {
                self.full.push(full);
            }
        }
        self.top.push(item);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        if self.top.is_empty() {
            self.top = self.full.pop()?;
        }
        self.top.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.top.is_empty() && self.full.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        let pieces = self.full.iter().chain([&self.top]);
        pieces.map(|piece| piece.capacity() * size_of::<T>()).sum()
    }

    /// All of it, from the bottom.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.full.iter().chain([&self.top]).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pushed_is_popped_first_over_any_number_of_pieces() {
        let (mut stack, all) = (Stack::default(), 3 * PIECE + 7);
        assert!(stack.is_empty() && stack.pop().is_none());
        (0..all).for_each(|item| stack.push(item));
        assert!(stack.iter().copied().eq(0..all));
        assert!(stack.bytes() >= all * size_of::<usize>());
        assert!((0..all).rev().all(|item| stack.pop() == Some(item)));
        assert!(stack.is_empty());
        stack.push(1);
        assert_eq!((stack.pop(), stack.pop()), (Some(1), None));
    }
}
