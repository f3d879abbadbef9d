//! The eight cases that Linux's driver had in 2019, by their bits: 1, 2, 4 … 128.

use super::{Case, Run};
use crate::design::Refusal;

/// All eight, in the order of their bits.
pub const CASES: &[Case] = &[
    Case { name: "fix_size_alloc", about: "1 page", run: fix_size },
    Case { name: "full_fit_alloc", about: "1 page among many holes of exactly that", run: full_fit },
    Case {
        name: "long_busy_list_alloc",
        about: "100 pages and 1 page above 15,000 areas",
        run: long_busy_list,
    },
    Case { name: "random_size_alloc", about: "1 to 100 pages", run: random_size },
    Case { name: "fix_align_alloc", about: "5 pages at a multiple of 4", run: fix_align },
    Case {
        name: "random_size_align_alloc",
        about: "1 to 10 pages at multiples of up to 1,024",
        run: random_size_align,
    },
    Case { name: "align_shift_alloc", about: "1 page at each power of two", run: align_shift },
    Case { name: "pcpu_alloc", about: "35,000 groups of a page for each CPU, once", run: pcpu },
];

/// Areas that `long_busy_list_alloc` holds.
const LONG_LIST: u64 = 15_000;
/// Groups that `pcpu_alloc` makes.
const GROUPS: u64 = 35_000;
/// Pages from the area of one CPU to that of the next.
const UNIT: u64 = 16;
/// A kernel stack, in pages.
const STACK: u64 = 4;

fn fix_size(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| run.pair(1, 1))
}

/// Twice the threshold of one-page areas; every second is freed and purged, so that one-page holes
/// remain.
fn full_fit(run: &mut Run<'_>) -> Result<(), Refusal> {
    let held = run.hold(2 * run.stage.lazy_max_pages)?;
    let (holes, kept): (Vec<_>, Vec<_>) = held.iter().enumerate().partition(|(index, _)| index % 2 == 0);
    let starts = |half: Vec<(usize, &u64)>| half.into_iter().map(|(_, &start)| start).collect::<Vec<_>>();
    run.free_all(&starts(holes))?;
    run.stage.design.purge();
    run.turns(|run| run.pair(1, 1))?;
    run.free_all(&starts(kept))
}

pub(super) fn long_busy_list(run: &mut Run<'_>) -> Result<(), Refusal> {
    let held = run.hold(LONG_LIST)?;
    run.turns(|run| {
        let large = run.area(100, 1)?;
        let small = run.area(1, 1)?;
        run.stage.design.free(large)?;
        run.stage.design.free(small)
    })?;
    run.free_all(&held)
}

fn random_size(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| {
        let pages = run.rng.between(1, 100);
        run.pair(pages, 1)
    })
}

fn fix_align(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| run.pair(5, STACK))
}

/// By a random byte: a multiple of 2^(byte % 23) bytes, and byte % 10 + 1 pages.
fn random_size_align(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| {
        let byte = run.rng.below(256);
        run.pair(byte % 10 + 1, in_pages(byte % 23))
    })
}

/// No space has an address for the largest, so refusals are expected. The first loop in which there
/// is one is the last.
fn align_shift(run: &mut Run<'_>) -> Result<(), Refusal> {
    let mut refused = false;
    run.turns(|run| {
        if !refused {
            refused = (0..u64::BITS.into()).any(|bit| run.pair(1, in_pages(bit)).is_err());
        }
        Ok(())
    })
}

/// 2^`bits` bytes, in pages.
fn in_pages(bits: u64) -> u64 {
    1 << bits.saturating_sub(crate::design::PAGE_SHIFT.into())
}

/// Once, whatever the number of loops.
fn pcpu(run: &mut Run<'_>) -> Result<(), Refusal> {
    let cpus = crate::cpu::count() as u64;
    let offsets: Vec<u64> = (0..cpus).map(|cpu| cpu * UNIT).collect();
    let sizes = vec![1; offsets.len()];
    let (mut bases, loops) = (Vec::new(), run.size.loops);
    run.size.loops = 1;
    let done = run.turns(|run| {
        for _ in 0..GROUPS / run.size.held_by {
            bases.push(run.stage.design.alloc_congruent(&offsets, &sizes, 1)?);
        }
        bases.iter().try_for_each(|&base| run.stage.design.free_congruent(base, &offsets, &sizes))
    });
    run.size.loops = loops;
    done
}
