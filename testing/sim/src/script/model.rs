//! What each page of each area shows.

use std::collections::BTreeMap;
use vmalloc::{Frame, Protection};

/// A holder of a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cell {
    /// A frame that the player has taken.
    Frame(Frame),
    /// A page that the space has taken, by a number of its own.
    Own(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Plain,
    Vmap,
    Ram,
    User,
    Shown,
    Sparse,
    Percpu,
}

#[derive(Clone, Debug)]
pub(super) struct Area {
    pub(super) what: What,
    pub(super) addr: usize,
    pub(super) cells: Vec<Option<Cell>>,
    pub(super) protection: Protection,
    /// Frames to be given back when it is unmapped.
    pub(super) owned: Vec<Frame>,
}

/// All words that were written, and the numbers given out.
#[derive(Default, Debug)]
pub(super) struct Words {
    words: BTreeMap<Cell, u64>,
    next: u64,
}

impl Words {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns fresh, zeroed pages.
    pub(super) fn fresh(&mut self, pages: usize) -> Vec<Option<Cell>> {
        let cells: Vec<_> = (0..pages).map(|_| Some(Cell::Own(self.number()))).collect();
        self.words.extend(cells.iter().flatten().map(|cell| (*cell, 0)));
        cells
    }

    pub(super) fn set(&mut self, cell: Cell, word: u64) {
        self.words.insert(cell, word);
    }

    /// Returns the word of `cell`, if that is known.
    pub(super) fn get(&self, cell: Cell) -> Option<u64> {
        self.words.get(&cell).copied()
    }

    /// Its content may be any from now on.
    pub(super) fn forget(&mut self, frame: Frame) {
        self.words.remove(&Cell::Frame(frame));
    }
}
