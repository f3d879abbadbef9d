//! An area that grows from 1 MiB to many by a page at a time, each of which is touched.
//!
//! Ways that copy would take minutes: of their steps one in so many is made, from a size that was
//! reached without the clock, and the sum is scaled.

mod libc_ways;
mod ours;

use super::PAGE_BYTES;
use libc_ways::Heap;
use ours::Area;
use serde::Serialize;
use vmalloc_kit::clock::{tick, ticks_per_ns};
use vmalloc_kit::stats::median;

/// Pages at the begin.
const FIRST: usize = 256;

/// How memory grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// By `realloc`, with nothing in the way that was put there.
    Free,
    /// By `realloc`, with something right behind before each step.
    Blocked,
    /// By hand: new memory, a copy, and a free.
    Copied,
}

/// Memory that grows.
trait Memory {
    /// Allocates `pages` pages, of any content.
    fn begin(how: How, pages: usize) -> Self;

    /// Puts something in the way of the next step.
    fn obstruct(&mut self);

    /// Grows to `pages` pages, and keeps what was there.
    fn realloc(&mut self, pages: usize);

    /// Does so by hand.
    fn copy(&mut self, pages: usize);

    /// Where it is.
    fn addr(&self) -> usize;
}

/// A way to grow: its name in tables, how, that one step in so many is made, and what makes them.
type Way = (&'static str, How, usize, fn(How, usize, usize) -> Round);

const WAYS: [Way; 6] = [
    ("realloc, in place", How::Free, 1, play::<Area>),
    ("realloc, blocked each time", How::Blocked, 8, play::<Area>),
    ("glibc realloc (mremap)", How::Free, 1, play::<Heap>),
    ("vmalloc + copy + free", How::Copied, 256, play::<Area>),
    ("glibc malloc + memcpy + free", How::Copied, 256, play::<Heap>),
    ("glibc realloc, no mremap, blocked", How::Blocked, 256, play::<Heap>),
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
        for ((_, how, each, play), results) in WAYS.into_iter().zip(&mut rounds_of) {
            results.push(play(how, each, last));
        }
    }
    let row = |((name, _, each, _), results): (Way, &Vec<Round>)| row(name, each, results, last);
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

fn row(way: &'static str, each: usize, rounds: &[Round], last_page: usize) -> Row {
    let last = rounds[rounds.len() - 1];
    let ns = median(&rounds.iter().map(|round| round.ns).collect::<Vec<_>>());
    let step_us = ns / last.steps as f64 / 1e3;
    let all_ms = step_us * (last_page - FIRST) as f64 / 1e3;
    Row { way, each, step_us, all_ms, ratio: 1.0, moved: (last.steps, last.moved) }
}

/// Grows to `last` pages, with the clock running for one step in `each`.
fn play<M: Memory>(how: How, each: usize, last: usize) -> Round {
    let grow = if how == How::Copied { M::copy } else { M::realloc };
    let mut area = M::begin(how, FIRST);
    stamp(&area, 0..FIRST);
    let (mut have, mut round, mut ticks) = (FIRST, Round { ns: 0.0, steps: 0, moved: 0 }, 0);
    for pages in (FIRST..last).step_by(each) {
        if have < pages {
            grow(&mut area, pages);
            stamp(&area, have..pages);
        }
        if how == How::Blocked {
            area.obstruct();
        }
        let (place, before) = (area.addr(), tick());
        grow(&mut area, pages + 1);
        stamp(&area, pages..pages + 1);
        ticks += tick().wrapping_sub(before);
        have = pages + 1;
        round.steps += 1;
        round.moved += usize::from(area.addr() != place);
    }
    check(&area, have);
    round.ns = ticks as f64 / ticks_per_ns();
    round
}

/// Writes the number of each of the pages at its begin.
fn stamp(area: &impl Memory, pages: core::ops::Range<usize>) {
    for page in pages {
        let word = core::ptr::with_exposed_provenance_mut::<usize>(area.addr() + page * PAGE_BYTES);
        // SAFETY: the area has the page, readable and writable, and is this thread's alone. The C
        // library aligns to two words.
        unsafe { word.write_volatile(page) };
    }
}

/// # Panics
/// When a page lost its number.
fn check(area: &impl Memory, pages: usize) {
    for page in 0..pages {
        let word = core::ptr::with_exposed_provenance::<usize>(area.addr() + page * PAGE_BYTES);
        // SAFETY: as above.
        assert_eq!(unsafe { word.read_volatile() }, page, "a page was lost on the way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_nothing_moves_and_with_a_neighbour_everything_does() {
        let in_place = play::<Area>(How::Free, 32, 1024);
        assert_eq!((in_place.steps, in_place.moved), ((1024 - FIRST) / 32, 0));
        let blocked = play::<Area>(How::Blocked, 32, 1024);
        assert_eq!((blocked.steps, blocked.moved), (in_place.steps, in_place.steps));
    }
}
