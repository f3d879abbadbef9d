//! Physical memory: the heap, and behind it the frames that are handed out.
//!
//! ```text
//!   0      1 MiB     image_end                                            end of memory
//!   │ boot │  image  │   heap (three eighths)   │   frames of the supply  │
//! ```
//! All of it can be read and written at [`DIRECT_MAP`]. Memory node 1, where there is one, begins at
//! an address that the command line tells, and has all memory above it.

use crate::boot::{self, Piece};
use crate::cpu::Here;
use alloc::boxed::Box;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use lock_api::Mutex;
use talc::TalcLock;
use talc::source::Manual;
use vmalloc::{Frame, Origin};
use vmalloc_tables::IrqLock;

pub(crate) use crate::arch::DIRECT_MAP;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Where physical address `addr` is, below 4 GiB.
#[inline]
pub(crate) fn direct<T>(addr: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(DIRECT_MAP + addr as usize)
}

/// The heap that the allocator's own notes are on.
#[global_allocator]
static HEAP: TalcLock<IrqLock<Here>, Manual> = TalcLock::new(Manual);

/// Takes over all memory behind the image, in its largest piece: the frames that are left when the
/// heap has its part.
///
/// Memory from address `node1` on is of memory node 1, where there is one.
///
/// # Safety
/// Called once, before anything else allocates.
pub(crate) unsafe fn enter(pieces: &[Piece], node1: Option<u64>) -> Supply {
    let (start, end) = pieces
        .iter()
        .filter(|piece| piece.is_ram())
        .map(|piece| (piece.start.max(boot::image_end_addr()), piece.start + piece.bytes))
        .filter(|(start, end)| start < end)
        .max_by_key(|(start, end)| end - start)
        .expect("memory behind the image");
    let heap = (end - start) * 3 / 8;
    // SAFETY: unused memory so far, and the heap's alone from here on.
    unsafe { HEAP.lock().claim(direct(start), heap as usize) };
    let (first, end) = ((start + heap).div_ceil(WORD_BYTES) * WORD, end / WORD_BYTES * WORD);
    Supply::new(first, end, node1.map_or(end, |addr| (addr / WORD_BYTES * WORD).clamp(first, end)))
}

/// Frames of a word.
const WORD: u64 = u64::BITS as u64;
const WORD_BYTES: u64 = WORD * PAGE as u64;

/// Frames that are handed out: a bit for each that is not taken, from the first of memory on. Words
/// are written with the lock held, and read without it. Frames below the first of the supply are
/// never taken.
pub(crate) struct Supply {
    /// Multiples of [`WORD`], as the other.
    first: u64,
    end: u64,
    /// The first of memory node 1; the end where there is none.
    node1: u64,
    words: Box<[AtomicU64]>,
    rest: Mutex<IrqLock<Here>, Rest>,
}

/// State under the lock besides the words.
struct Rest {
    free: u64,
    /// No frame of a word before this one is free.
    lowest: usize,
}

impl Supply {
    /// The frames from `first` to `end`, all free.
    fn new(first: u64, end: u64, node1: u64) -> Self {
        let words = (0..end / WORD).map(|_| AtomicU64::new(u64::MAX));
        let rest = Rest { free: end - first, lowest: (first / 64) as usize };
        Self { first, end, node1, words: words.collect(), rest: Mutex::new(rest) }
    }

    /// The frame behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// All frames, of any node.
    pub(crate) fn all(&self) -> Range<u64> {
        self.first..self.end
    }

    /// The frames of a memory node, if there is one of that number.
    pub(crate) fn node(&self, number: usize) -> Option<Range<u64>> {
        let (first, end) = *[(self.first, self.node1), (self.node1, self.end)].get(number)?;
        (first < end).then_some(first..end)
    }

    /// How many of a node are free.
    pub(crate) fn free_of(&self, node: Range<u64>) -> u64 {
        let _rest = self.rest.lock();
        node.filter(|&frame| self.is_free(frame)).count() as u64
    }

    /// How many are free.
    pub(crate) fn free(&self) -> u64 {
        self.rest.lock().free
    }

    /// Takes the lowest free frames: [`vmalloc_tables::Machine::take_frames`].
    #[inline]
    pub(crate) fn take(&self, frames: &mut [Frame]) -> bool {
        let mut rest = self.rest.lock();
        let Some(free) = rest.free.checked_sub(frames.len() as u64) else { return false };
        rest.free = free;
        // Relaxed: the lock orders it; a reader without it wants a single bit of a frame that is
        // his.
        let (words, mut word) = (&*self.words, rest.lowest);
        let mut bits = words.get(word).map_or(0, |word| word.load(Ordering::Relaxed));
        for slot in frames {
            while bits == 0 {
                words[word].store(0, Ordering::Relaxed);
                word += 1;
                bits = words[word].load(Ordering::Relaxed);
            }
            *slot = Frame(word as u64 * WORD + u64::from(bits.trailing_zeros()));
            bits &= bits - 1;
        }
        if let Some(last) = words.get(word) {
            last.store(bits, Ordering::Relaxed);
        }
        rest.lowest = word;
        true
    }

    /// Takes the lowest free frames of a node, or none.
    pub(crate) fn take_of(&self, frames: &mut [Frame], node: Range<u64>) -> bool {
        let mut rest = self.rest.lock();
        let mut free = node.filter(|&frame| self.is_free(frame));
        for slot in frames.iter_mut() {
            let Some(frame) = free.next() else { return false };
            *slot = Frame(frame);
        }
        frames.iter().for_each(|frame| self.flip(frame.0));
        rest.free -= frames.len() as u64;
        true
    }

    /// Takes the first run of `frames` that fits: [`vmalloc_tables::Machine::take_run`].
    pub(crate) fn take_run(&self, count: u64, align: u64, frames: Range<u64>) -> Option<Frame> {
        let mut rest = self.rest.lock();
        let starts = (frames.start.next_multiple_of(align)..frames.end).step_by(align as usize);
        let fits = |first: &u64| {
            first
                .checked_add(count)
                .is_some_and(|end| end <= frames.end && (*first..end).all(|frame| self.is_free(frame)))
        };
        let first = starts.into_iter().find(fits)?;
        (first..first + count).for_each(|frame| self.flip(frame));
        rest.free -= count;
        Some(Frame(first))
    }

    /// Returns frames: [`vmalloc_tables::Machine::give_frames`].
    #[inline]
    pub(crate) fn give(&self, frames: &[Frame]) {
        let mut rest = self.rest.lock();
        let (words, mut lowest) = (&*self.words, rest.lowest);
        for &Frame(frame) in frames {
            let (word, bit) = (&words[(frame / WORD) as usize], 1 << (frame % WORD));
            let free = word.load(Ordering::Relaxed);
            assert!(free & bit == 0, "a frame was given back twice");
            word.store(free | bit, Ordering::Relaxed);
            lowest = lowest.min((frame / WORD) as usize);
        }
        rest.free += frames.len() as u64;
        rest.lowest = lowest;
    }

    /// Returns the origin of a frame.
    #[inline]
    pub(crate) fn origin(&self, frame: Frame) -> Origin {
        match self.words.get((frame.0 / WORD) as usize) {
            None => Origin::Device,
            // Relaxed: a caller that asks for a frame that it has taken sees that it has.
            Some(word) if word.load(Ordering::Relaxed) >> (frame.0 % WORD) & 1 != 0 => Origin::Foreign,
            Some(_) => Origin::Supply,
        }
    }

    /// Returns true if all of these frames, at least one, are taken, or below the first that is
    /// handed out.
    pub(crate) fn are_taken(&self, first: Frame, count: u64) -> bool {
        if count == 1 {
            return self.origin(first) == Origin::Supply;
        }
        let Some(last) = first.0.checked_add(count - 1).filter(|&last| last < self.end) else { return false };
        let words = &self.words[(first.0 / WORD) as usize..=(last / WORD) as usize];
        // Relaxed: as for `origin`.
        let free = |word: &AtomicU64| word.load(Ordering::Relaxed);
        // Of the first word bits from `first` on, of the last those up to `last`.
        let (from, to) = (u64::MAX << (first.0 % WORD), u64::MAX >> (WORD - 1 - last % WORD));
        match words {
            [only] => free(only) & from & to == 0,
            [one, between @ .., end] => {
                free(one) & from == 0 && free(end) & to == 0 && between.iter().all(|word| free(word) == 0)
            }
            [] => true,
        }
    }

    #[inline]
    fn is_free(&self, frame: u64) -> bool {
        self.words[(frame / 64) as usize].load(Ordering::Relaxed) >> (frame % 64) & 1 != 0
    }

    /// With the lock held.
    #[inline]
    fn flip(&self, frame: u64) {
        let word = &self.words[(frame / 64) as usize];
        word.store(word.load(Ordering::Relaxed) ^ 1 << (frame % 64), Ordering::Relaxed);
    }
}
