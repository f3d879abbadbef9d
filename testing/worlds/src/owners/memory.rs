//! Memory by its address, with the model of what it holds.

use crate::dice::Dice;
use std::ops::Range;
use vmalloc_linux::page_bytes;

/// The model of memory: the number that each page begins with, where it is known.
pub(crate) struct Pages {
    addr: usize,
    bytes: usize,
    held: Vec<Option<u64>>,
}

const WORD: usize = size_of::<u64>();

impl Pages {
    pub(crate) fn new(addr: usize, bytes: usize, is_zero: bool) -> Self {
        Self { addr, bytes, held: vec![is_zero.then_some(0); bytes.div_ceil(page_bytes())] }
    }

    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    /// Returns where a page begins, and where its last whole word is.
    fn places(&self, page: usize) -> Option<[usize; 2]> {
        let start = self.addr + page * page_bytes();
        let end = (self.addr + self.bytes).min(start + page_bytes());
        (end - start >= WORD).then(|| [start, (end - WORD) / WORD * WORD])
    }

    pub(crate) fn write(&mut self, page: usize, value: u64) {
        let Some(places) = self.places(page) else { return };
        for place in places {
            // SAFETY: the memory is this owner's.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(place).write(value) };
        }
        self.held[page] = Some(value);
    }

    /// Returns whether the number of a page is known.
    pub(crate) fn is_known(&self, page: usize) -> bool {
        self.held[page].is_some()
    }

    /// Forgets the numbers of these pages.
    pub(crate) fn forget(&mut self, pages: Range<usize>) {
        self.held[pages].fill(None);
    }

    /// Returns how many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Has so many bytes from now on; more of them hold anything.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.held.resize(bytes.div_ceil(page_bytes()), None);
    }

    pub(crate) fn write_some(&mut self, dice: &mut Dice) {
        let pages = self.held.len();
        if pages == 0 {
            return;
        }
        if pages <= 600 && dice.one_in(3) {
            (0..pages).for_each(|page| self.write(page, dice.any()));
        }
        for _ in 0..4 {
            let page = dice.below(pages);
            self.write(page, dice.any());
        }
        self.write(pages - 1, dice.any());
    }

    pub(crate) fn check(&self) {
        for (page, held) in self.held.iter().enumerate() {
            held.iter().for_each(|held| self.check_page(page, *held));
        }
    }

    /// Checks the number of a page.
    pub(crate) fn check_page(&self, page: usize, held: u64) {
        for place in self.places(page).into_iter().flatten() {
            // SAFETY: the memory is this owner's.
            let found = unsafe { std::ptr::with_exposed_provenance::<u64>(place).read() };
            assert_eq!(found, held, "page {page} of {} bytes at {:#x}", self.bytes, self.addr);
        }
    }

    /// Checks that the bytes from `from` on are zeros.
    pub(crate) fn check_zeros(&self, from: usize) {
        let start = std::ptr::with_exposed_provenance::<u8>(self.addr);
        // SAFETY: the memory is this owner's.
        let all = unsafe { std::slice::from_raw_parts(start, self.bytes) };
        let stale = all[from..].iter().position(|byte| *byte != 0);
        assert_eq!(stale, None, "a byte behind {from} of {} at {:#x} is not zero", self.bytes, self.addr);
    }

    /// Goes on with the same content at another address, or of another size. Of a page that is cut,
    /// or was, the content is not known any more.
    pub(crate) fn moved(&mut self, addr: usize, bytes: usize) {
        let whole = self.bytes.min(bytes) / page_bytes();
        let mut moved = Self::new(addr, bytes, false);
        moved.held[..whole].copy_from_slice(&self.held[..whole]);
        *self = moved;
        self.check();
    }
}
