//! A CPU's queue: the windows from which it takes slots.

use super::kept::KeptRuns;
use super::{MAX_SLOTS, MOST_PAGES};
use core::sync::atomic::Ordering;
use lock_api::{Mutex, RawMutex};
use vmalloc::sync::AtomicU64;

/// A range of slots that one queue may hand out, from `next` on.
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

    /// Returns whether this is a window, used up or not: no block ends at page 0.
    pub(crate) fn is_some(&self) -> bool {
        self.end != 0
    }
}

/// The orders of requests: a queue has a window for each.
pub(crate) const ORDERS: usize = MOST_PAGES.ilog2() as usize + 1;

/// The windows of one CPU.
pub(crate) struct Queue<L> {
    /// By order: mappings of a size lie together, so that what they leave behind fits the next
    /// ones.
    pub(crate) windows: [AtomicWindow; ORDERS],
    /// Held by a thread that opens or closes windows.
    pub(crate) state: Mutex<L, QueueState>,
}

impl<L: RawMutex> Default for Queue<L> {
    fn default() -> Self {
        Self { windows: Default::default(), state: Mutex::new(QueueState::default()) }
    }
}

/// A window from which any thread may take without a lock. One word says all of it, so to take is
/// to exchange the word. It does no harm if the window was closed and opened again meanwhile: if
/// the word is the same, so is the window. Its length is a multiple of what is taken from it.
#[derive(Default)]
pub(crate) struct AtomicWindow(AtomicU64);

/// Bits for the length of a window; above them its first page.
const LEN_BITS: u32 = MAX_SLOTS.ilog2() + 1;
const LEN: u64 = (1 << LEN_BITS) - 1;

impl AtomicWindow {
    /// Takes 2^`order` slots, if there are any and no other thread is at it. Returns the first.
    #[inline(always)]
    pub(crate) fn take(&self, order: usize) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        // So much further, and so much shorter.
        let next = word.wrapping_add(LEN << order);
        if word & LEN == 0 {
            return None;
        }
        // Acquire: pairs with the Release in `open`: what was done with the block before is over.
        let taken = self.0.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|word| word >> LEN_BITS)
    }

    /// Returns the window, used up or not. It can only get shorter while the queue is held.
    pub(crate) fn window(&self) -> Window {
        Window::of(self.0.load(Ordering::Relaxed))
    }

    /// Opens a window where there is none, or one that is used up. The caller holds the queue.
    pub(crate) fn open(&self, window: Window) {
        self.0.store(window.next << LEN_BITS | window.len(), Ordering::Release);
    }

    /// Takes the window away. The caller holds the queue.
    pub(crate) fn close(&self) -> Window {
        // Acquire: slots that were taken before are taken.
        Window::of(self.0.swap(0, Ordering::AcqRel))
    }
}

impl Window {
    fn of(word: u64) -> Self {
        let next = word >> LEN_BITS;
        Self { next, end: next + (word & LEN) }
    }
}

/// The state that a queue's lock protects, beside the opening of its windows.
#[derive(Default)]
pub(crate) struct QueueState {
    /// Runs that are kept mapped.
    pub(crate) kept: KeptRuns,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(next: u64, end: u64) -> Window {
        Window { next, end }
    }

    #[test]
    fn a_window_is_one_word() {
        let hot = AtomicWindow::default();
        assert_eq!(hot.take(0), None);
        hot.open(window(512, 512 + 8));
        assert_eq!([hot.take(1), hot.take(1)], [Some(512), Some(514)]);
        assert_eq!(hot.window(), window(516, 520));
        assert_eq!([hot.take(2), hot.take(2)], [Some(516), None]);
        assert_eq!(hot.close(), window(520, 520), "used up, but it says of which block");
        assert_eq!(hot.close(), window(0, 0));
    }
}
