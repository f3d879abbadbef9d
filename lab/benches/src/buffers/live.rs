//! Live buffers, of which random ones are replaced.

use super::{Memory, PAGE_BYTES, touch};
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use vmalloc_kit::rng::Rng;

/// Live buffers of random sizes, with a byte written to each page.
pub(crate) struct Live<M: Memory> {
    memory: M,
    live: Vec<(NonNull<u8>, usize)>,
    rng: Rng,
    pages: RangeInclusive<u64>,
    /// Told the kernel about each buffer (madvise(2)).
    advice: Option<libc::c_int>,
    /// Bytes that are live, and the most that ever were.
    pub(crate) bytes: usize,
    pub(crate) most: usize,
}

impl<M: Memory> Live<M> {
    /// Allocates `count` buffers of `pages` pages each, all sizes equally likely.
    pub(crate) fn new(memory: M, seed: u64, count: usize, pages: RangeInclusive<u64>) -> Self {
        Self::advised(memory, seed, count, pages, None)
    }

    /// Allocates them and tells the kernel about each, before it is written to.
    pub(crate) fn advised(
        memory: M,
        seed: u64,
        count: usize,
        pages: RangeInclusive<u64>,
        advice: Option<libc::c_int>,
    ) -> Self {
        let (live, rng) = (Vec::with_capacity(count), Rng::new(seed));
        let mut all = Self { memory, live, rng, pages, advice, bytes: 0, most: 0 };
        for _ in 0..count {
            let buffer = all.allocate();
            all.live.push(buffer);
        }
        all
    }

    fn allocate(&mut self) -> (NonNull<u8>, usize) {
        let bytes = self.rng.between(*self.pages.start(), *self.pages.end()) as usize * PAGE_BYTES;
        let buffer = self.memory.allocate(bytes);
        if let Some(advice) = self.advice {
            // SAFETY: the whole pages of the buffer are this set's own, which needs no content.
            // Where the advice is refused base pages serve.
            unsafe { libc::madvise(buffer.as_ptr().cast(), bytes, advice) };
        }
        // SAFETY: the allocator has just handed out these bytes.
        unsafe { touch(buffer, bytes) };
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
        (buffer, bytes)
    }

    /// Replaces a random buffer so many times. The random numbers are drawn as it goes: some 3 ns
    /// of each replacement.
    pub(crate) fn replace(&mut self, times: usize) {
        for _ in 0..times {
            let slot = self.draw();
            self.replace_at(slot);
        }
    }

    /// Replaces a random buffer so many times; the last of the set takes its place each time.
    pub(crate) fn replace_with_last(&mut self, times: usize) {
        for _ in 0..times {
            let (slot, last) = (self.draw(), self.live.len() - 1);
            self.live.swap(slot, last);
            self.replace_at(last);
        }
    }

    fn draw(&mut self) -> usize {
        self.rng.below(self.live.len() as u64) as usize
    }

    fn replace_at(&mut self, slot: usize) {
        let (buffer, bytes) = self.live[slot];
        self.bytes -= bytes;
        // SAFETY: the buffer is live, and replaced in the set right below.
        unsafe { self.memory.free(buffer, bytes) };
        self.live[slot] = self.allocate();
    }
}

impl<M: Memory> Drop for Live<M> {
    fn drop(&mut self) {
        for &(buffer, bytes) in &self.live {
            // SAFETY: the set holds live buffers only, and ends here.
            unsafe { self.memory.free(buffer, bytes) };
        }
    }
}
