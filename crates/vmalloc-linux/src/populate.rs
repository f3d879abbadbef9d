//! Population: memory behind new areas by one call, where the program fills its areas anyway.
//!
//! The first touch of a page is a fault. A call that populates many pages saves the way into the
//! kernel and back for each: areas of 64 pages and more are filled in 0.77 of the time, those of 8
//! in 0.9 (`cargo run --release -p vmalloc-examples --example fill_cost`). But pages that the program
//! never touches would be wasted. So the platform learns from what happens, for each class of
//! sizes:
//!
//! ```text
//!   area 1 gets pages ──► it is noted
//!   area 2 gets pages ──► is area 1 full by now?   no: the count is 0   yes: the count is 1
//!   area 3 gets pages ──► is area 2 full by now?   no: the count is 0   yes: the count is 2
//!                              with 2, three quarters of area 3 are populated
//! ```
//!
//! The last quarter is left to faults, and so tells whether the program comes that far. Where it
//! does not, a part of one area was wasted, and two have to be filled before that can happen again.
//! An area that was freed meanwhile counts as full as long as its memory is there.

use crate::os::madvise::Advice;
use crate::os::raw;
use crate::os::reservation::Reservation;
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::PageRange;

/// The fewest pages that are populated. With fewer, the two calls take as long as the faults.
const FEWEST: u64 = 8;
/// The size from which on areas are left alone: for those, programs ask for huge pages (numpy from
/// 4 MiB on), which come only where nothing is, and fill them with many threads, each near its own
/// memory.
const TOO_MANY: u64 = 1024;
/// The pages that one call populates: it keeps other threads from changing mappings for 0.2 ms.
const AT_ONCE: u64 = 128;

/// The count of full areas at which the next one is populated.
const ENOUGH: u64 = 2;

/// log2 of the classes from a power of two up to the next.
const CLASS_BITS: u32 = 2;
const CLASSES: usize = ((TOO_MANY.ilog2() - FEWEST.ilog2()) << CLASS_BITS) as usize;

/// The sets of classes. With one for all CPUs, a thread would find the area that another is about
/// to fill.
const SETS: usize = 8;

/// The last area of a class and the count of those before it. From the highest bits to the lowest:
/// the area's first page, its length, the count.
type Class = AtomicU64;
const LEN_BITS: u32 = TOO_MANY.ilog2();
const COUNT_BITS: u32 = 2;

/// Classes that mostly one CPU uses.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Set([Class; CLASSES]);

/// The platform's notes on the areas of a reservation.
#[derive(Debug, Default)]
pub(crate) struct Population {
    sets: [Set; SETS],
}

impl Population {
    /// Populates a part of `area`, which has just been mapped, if areas of its size are filled.
    pub(crate) fn admit(&self, memory: &Reservation, area: PageRange, cpu: usize) {
        // Relaxed, here and below: hints. Threads that meet forget what one of them has learned.
        if !(FEWEST..TOO_MANY).contains(&area.len()) {
            return;
        }
        let class = &self.sets[cpu % SETS].0[class_of(area.len())];
        let count = match decode(class.load(Ordering::Relaxed)) {
            Some((last, count)) if is_full(memory, last) => (count + 1).min(ENOUGH),
            _ => 0,
        };
        class.store(encode(area, count), Ordering::Relaxed);
        if count == ENOUGH {
            populate(memory, area);
        }
    }
}

/// Populates three quarters of `area`. A refusal is harmless: the first touch does the same.
fn populate(memory: &Reservation, area: PageRange) {
    let end = area.start() + area.len() / 4 * 3;
    let starts = (area.start()..end).step_by(AT_ONCE as usize);
    let mut parts = starts.filter_map(|start| PageRange::new(start, end.min(start + AT_ONCE)));
    let _ = parts.try_for_each(|part| memory.advise(part, Advice::PopulateWrite));
}

fn class_of(pages: u64) -> usize {
    let power = pages.ilog2();
    let part = (pages >> (power - CLASS_BITS)) as usize & ((1 << CLASS_BITS) - 1);
    (((power - FEWEST.ilog2()) as usize) << CLASS_BITS) + part
}

fn encode(area: PageRange, count: u64) -> u64 {
    (area.start() << LEN_BITS | area.len()) << COUNT_BITS | count
}

/// Returns the last area and the count; `None` before the first one.
fn decode(class: u64) -> Option<(PageRange, u64)> {
    let area = class >> COUNT_BITS;
    let len = area & ((1 << LEN_BITS) - 1);
    Some((PageRange::from_len(area >> LEN_BITS, len)?, class & ((1 << COUNT_BITS) - 1)))
}

/// Returns true if memory is behind four fifths of an area of up to [`TOO_MANY`] pages: a malloc
/// rounds requests up by no more than a quarter.
pub(crate) fn is_full(memory: &Reservation, area: PageRange) -> bool {
    let run = memory.run(area);
    let mut pages = [0_u8; TOO_MANY as usize];
    // SAFETY: the answer has room for every page of an area that was noted. The kernel reads its
    // own tables, not the run.
    let answer = unsafe {
        let (first, answer) = (run.iov_base.expose_provenance(), pages.as_mut_ptr().expose_provenance());
        raw::call(libc::SYS_mincore, [first, run.iov_len, answer, 0, 0, 0])
    };
    let resident = pages[..area.len() as usize].iter().filter(|&&page| page & 1 != 0).count() as u64;
    answer.is_ok() && resident * 5 >= area.len() * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_classes_of_their_own_a_quarter_apart() {
        let classes: Vec<_> = [8, 9, 10, 12, 14, 15, 16, 19, 20, 1023].map(class_of).into();
        assert_eq!(classes, [0, 0, 1, 2, 3, 3, 4, 4, 5, CLASSES - 1]);
    }

    #[test]
    fn a_class_holds_any_area_and_count() {
        let highest = PageRange::from_len((1 << 45) - 1023, 1023).unwrap();
        for (area, count) in [(highest, 2), (PageRange::from_len(1, 8).unwrap(), 0)] {
            assert_eq!(decode(encode(area, count)), Some((area, count)));
        }
        assert_eq!(decode(0), None);
    }
}
