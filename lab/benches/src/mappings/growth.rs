//! An area that grows from 1 MiB to many by a page at a time, each of which is touched.
//!
//! Ways that copy would take minutes: of their steps one in so many is made, from a size that was
//! reached without the clock, and the sum is scaled.

use super::{PAGE_BYTES, space};
use core::ffi::c_void;
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use serde::Serialize;
use vmalloc::Request;
use vmalloc_kit::clock::{tick, ticks_per_ns};
use vmalloc_kit::stats::median;
use vmalloc_linux::SharedSpace;

/// Pages at the begin.
const FIRST: usize = 256;

/// Memory that grows, and frees itself.
trait Memory {
    /// Puts something in the way of the next step, if that is this one's way.
    fn obstruct(&mut self) {}

    /// Grows to `pages` pages, and keeps what was there.
    fn grow(&mut self, pages: usize);

    /// Where it is.
    fn addr(&self) -> usize;
}

/// A way to grow: its name in tables, that one step in so many is made, and what begins.
type Way = (&'static str, usize, fn() -> Box<dyn Memory>);

const WAYS: [Way; 4] = [
    ("realloc, in place", 1, || Box::new(Area::new(false))),
    ("realloc, blocked each time", 8, || Box::new(Area::new(true))),
    ("glibc realloc (mremap)", 1, || Box::new(Block::new(FIRST, false))),
    ("glibc malloc + memcpy + free", 256, || Box::new(Block::new(FIRST, true))),
];

/// The times of one way.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The way.
    pub way: &'static str,
    /// One step in so many was made.
    pub each: usize,
    /// Wall time of a step, on average, in µs; the median of the rounds.
    pub step_us: f64,
    /// All steps, scaled, in ms.
    pub all_ms: f64,
    /// That over the time of the first way.
    pub ratio: f64,
    /// Steps of the last round, and how many of them moved the area.
    pub moved: (usize, usize),
}

/// Measures every way to `last` pages, `rounds` times in turn.
pub fn run(rounds: usize, last: usize) -> Vec<Row> {
    let mut rounds_of = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((_, each, begin), results) in WAYS.into_iter().zip(&mut rounds_of) {
            results.push(play(&mut *begin(), each, last));
        }
    }
    let row = |((way, each, _), rounds): (Way, &Vec<Round>)| {
        let (steps, moved) = rounds.last().map_or((1, 0), |round| (round.steps, round.moved));
        let ns = median(&rounds.iter().map(|round| round.ns).collect::<Vec<_>>());
        let step_us = ns / steps as f64 / 1e3;
        let all_ms = step_us * (last - FIRST) as f64 / 1e3;
        Row { way, each, step_us, all_ms, ratio: 1.0, moved: (steps, moved) }
    };
    let mut rows: Vec<Row> = WAYS.into_iter().zip(&rounds_of).map(row).collect();
    let first = rows[0].all_ms;
    rows.iter_mut().for_each(|row| row.ratio = row.all_ms / first);
    rows
}

/// One growth.
#[derive(Clone, Copy, Debug)]
struct Round {
    ns: f64,
    steps: usize,
    moved: usize,
}

/// Grows to `last` pages, with the clock running for one step in `each`.
fn play(memory: &mut dyn Memory, each: usize, last: usize) -> Round {
    stamp(memory, 0..FIRST);
    let (mut have, mut round, mut ticks) = (FIRST, Round { ns: 0.0, steps: 0, moved: 0 }, 0);
    for pages in (FIRST..last).step_by(each) {
        if have < pages {
            memory.grow(pages);
            stamp(memory, have..pages);
        }
        memory.obstruct();
        let (place, before) = (memory.addr(), tick());
        memory.grow(pages + 1);
        stamp(memory, pages..pages + 1);
        ticks += tick().wrapping_sub(before);
        have = pages + 1;
        round.steps += 1;
        round.moved += usize::from(memory.addr() != place);
    }
    check(memory, have);
    round.ns = ticks as f64 / ticks_per_ns();
    round
}

/// Writes the number of each of the pages at its begin.
fn stamp(memory: &dyn Memory, pages: core::ops::Range<usize>) {
    for page in pages {
        let word = with_exposed_provenance_mut::<usize>(memory.addr() + page * PAGE_BYTES);
        // SAFETY: the memory has the page, readable and writable, and is this thread's alone. The C
        // library aligns to two words.
        unsafe { word.write_volatile(page) };
    }
}

/// # Panics
/// When a page lost its number.
fn check(memory: &dyn Memory, pages: usize) {
    for page in 0..pages {
        let word = with_exposed_provenance::<usize>(memory.addr() + page * PAGE_BYTES);
        // SAFETY: as above.
        assert_eq!(unsafe { word.read_volatile() }, page, "a page was lost on the way");
    }
}

/// An area of ours.
struct Area {
    space: SharedSpace,
    addr: usize,
    is_blocked: bool,
    /// Addresses right behind the area.
    neighbour: Option<usize>,
}

impl Area {
    fn new(is_blocked: bool) -> Self {
        let space = space();
        let addr = space.raw().alloc(&Request::new(FIRST * PAGE_BYTES)).expect("memory for an area");
        Self { space, addr, is_blocked, neighbour: None }
    }

    fn clear(&mut self) {
        if let Some(addr) = self.neighbour.take() {
            // SAFETY: nothing uses the addresses any more.
            unsafe { self.space.raw().unreserve(addr) }.expect("a neighbour");
        }
    }
}

impl Memory for Area {
    fn obstruct(&mut self) {
        self.clear();
        if self.is_blocked {
            // Behind the guard page: a grown area may be larger than was asked for.
            let area = self.space.find(self.addr).expect("a live area");
            let behind = self.addr + (area.pages as usize + usize::from(area.guard)) * PAGE_BYTES;
            let page = Request::new(PAGE_BYTES).guard(false).within(behind, behind + PAGE_BYTES);
            self.neighbour = Some(self.space.raw().reserve(&page).expect("a page behind the area"));
        }
    }

    fn grow(&mut self, pages: usize) {
        // SAFETY: the area is this one's alone, which knows it by this address only.
        let addr = unsafe { self.space.raw().realloc(self.addr, &Request::new(pages * PAGE_BYTES)) };
        self.addr = addr.expect("memory for a larger area");
    }

    fn addr(&self) -> usize {
        self.addr
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.clear();
        // SAFETY: nothing uses the area any more.
        unsafe { self.space.raw().free(self.addr) }.expect("a live area");
    }
}

/// A block of the C library.
struct Block {
    start: *mut c_void,
    pages: usize,
    /// By hand: new memory, a copy, and a free.
    is_copied: bool,
}

impl Block {
    fn new(pages: usize, is_copied: bool) -> Self {
        // SAFETY: a size that is not zero.
        let start = unsafe { libc::malloc(pages * PAGE_BYTES) };
        assert!(!start.is_null(), "memory for a block");
        Self { start, pages, is_copied }
    }
}

impl Memory for Block {
    fn grow(&mut self, pages: usize) {
        if self.is_copied {
            let new = Self::new(pages, true);
            // SAFETY: both are live, this one's alone, and the new one is the larger.
            unsafe { new.start.copy_from_nonoverlapping(self.start, self.pages * PAGE_BYTES) };
            *self = new;
            return;
        }
        // SAFETY: the block is this one's alone, which knows it by this pointer only.
        self.start = unsafe { libc::realloc(self.start, pages * PAGE_BYTES) };
        assert!(!self.start.is_null(), "memory for a larger block");
        self.pages = pages;
    }

    fn addr(&self) -> usize {
        self.start.expose_provenance()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::free(self.start) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_nothing_moves_and_with_a_neighbour_everything_does() {
        let in_place = play(&mut Area::new(false), 32, 1024);
        assert_eq!((in_place.steps, in_place.moved), ((1024 - FIRST) / 32, 0));
        let blocked = play(&mut Area::new(true), 32, 1024);
        assert_eq!((blocked.steps, blocked.moved), (in_place.steps, in_place.steps));
    }
}
