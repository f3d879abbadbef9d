//! Atomics, and tables of them: the core's own, or those of a checker of weak memory
//! (`--cfg loom`).

use alloc::boxed::Box;

#[cfg(not(loom))]
pub(crate) use core::hint::spin_loop as pause;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now as pause;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

/// Returns so many words, all zero: memory that costs nothing until it is touched. `None` if there
/// is too little.
#[cfg(not(loom))]
pub(crate) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    bytemuck::allocation::try_zeroed_slice_box(count).ok()
}

#[cfg(loom)]
pub(crate) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    Some((0..count).map(|_| AtomicU64::new(0)).collect())
}

/// Words of a line of the cache.
pub(crate) const LINE: usize = 8;

/// Lines of the cache, of [`LINE`] words each: no word shares a line with one of another CPU.
#[derive(Debug)]
pub(crate) struct Lines {
    words: Box<[AtomicU64]>,
    /// The first word that begins a line.
    first: usize,
}

impl Lines {
    /// Returns so many lines, all zero; `None` without memory.
    pub(crate) fn new(count: usize) -> Option<Self> {
        let words = words(count.checked_mul(LINE)?.checked_add(LINE)?)?;
        let line = LINE * size_of::<u64>();
        let first = words.as_ptr().addr().next_multiple_of(line) - words.as_ptr().addr();
        Some(Self { words, first: first / size_of::<u64>() % LINE })
    }

    /// Returns the words of a line.
    pub(crate) fn get(&self, nth: usize) -> &[AtomicU64] {
        &self.words[self.first + nth * LINE..][..LINE]
    }

    /// Returns how many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len() / LINE - 1
    }
}
