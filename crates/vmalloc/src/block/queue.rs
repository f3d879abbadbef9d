//! A CPU's queue: the windows from which it maps.

use super::MOST_PAGES;
use alloc::vec::Vec;

/// Pages of a block that one queue may hand out, from `next` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    pub(crate) next: u64,
    pub(crate) end: u64,
}

impl Window {
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.end - self.next
    }

    /// Whether this is one, used up or not: no block ends at page 0.
    pub(crate) fn is_some(&self) -> bool {
        self.end != 0
    }

    /// Takes `slots` from the front, if there are as many; the first.
    #[inline(always)]
    pub(crate) fn take(&mut self, slots: u64) -> Option<u64> {
        let start = self.next;
        (self.len() >= slots).then(|| {
            self.next = start + slots;
            start
        })
    }
}

/// One window for each order of requests.
pub(crate) const ORDERS: usize = MOST_PAGES.ilog2() as usize + 1;

/// What a queue's lock protects.
pub(crate) struct Queue {
    /// By order: mappings of a size lie together, so that what they leave behind fits the next ones.
    pub(crate) hot: [Window; ORDERS],
    /// With a classic policy: all windows, in the order of the queue. Then there are no others.
    pub(crate) line: Vec<Window>,
    /// Runs that are kept mapped, by where [`place`] puts them: their first page, or 0.
    pub(crate) kept: [u64; KEPT],
}

/// Runs that a queue keeps mapped.
const KEPT: usize = 64;

/// Where a run of `pages` pages is kept of which the first leads to frame number `frame`.
pub(crate) fn place(frame: u64, pages: u64) -> usize {
    // Fibonacci hashing: the top bits of a product with 2^64 over the golden ratio.
    let mixed = (frame << 6 ^ pages).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - KEPT.ilog2())) as usize
}

impl Default for Queue {
    fn default() -> Self {
        Self { hot: [Window::default(); ORDERS], line: Vec::new(), kept: [0; KEPT] }
    }
}

impl Queue {
    /// Takes a window away, if there is one.
    pub(crate) fn close(&mut self) -> Option<Window> {
        let mut hot = self.hot.iter_mut().map(core::mem::take);
        self.line.pop().or_else(|| hot.find(Window::is_some))
    }

    /// Slots from the first of the line that has room, the classic way; and that window if it is used up.
    pub(crate) fn take_in_line(&mut self, slots: u64) -> Option<(u64, Option<Window>)> {
        let place = self.line.iter().position(|window| window.len() >= slots)?;
        let start = self.line[place].take(slots)?;
        let empty = self.line[place].len() == 0;
        Some((start, empty.then(|| self.line.remove(place))))
    }

    /// All windows.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Window> {
        let all = self.hot.iter().chain(&self.line);
        all.filter(|window| window.is_some())
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.line.capacity() * size_of::<Window>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(next: u64, end: u64) -> Window {
        Window { next, end }
    }

    #[test]
    fn the_first_in_line_that_has_room_serves() {
        let mut queue =
            Queue { line: [window(100, 104), window(200, 216), window(300, 301)].into(), ..Queue::default() };
        assert_eq!(queue.take_in_line(1), Some((100, None)));
        assert_eq!(queue.take_in_line(4), Some((200, None)));
        assert_eq!(queue.take_in_line(2), Some((101, None)));
        assert_eq!(
            queue.take_in_line(1),
            Some((103, Some(window(104, 104)))),
            "used up, and out of the line"
        );
        assert_eq!(queue.take_in_line(16), None);
        assert_eq!(queue.windows().count(), 2);
    }

    #[test]
    fn every_window_is_closed_once_used_up_or_not() {
        let mut queue = Queue::default();
        (queue.hot[0], queue.hot[2]) = (window(100, 104), window(208, 208));
        let closed: Vec<_> = core::iter::from_fn(|| queue.close()).collect();
        assert_eq!(closed, [window(100, 104), window(208, 208)]);
    }
}
