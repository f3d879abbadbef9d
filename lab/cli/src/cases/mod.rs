//! The cases of the test driver: one table, and what all cases share.
//!
//! Names, and bits up to 1024, are those of Linux's driver, so that its users find what they know.
//! Bits 256 and 512 are its cases of `kvfree_rcu`, which this library has no counterpart of.
//! A case runs `test_loop_count` loops; at the first refusal it frees what it holds and ends, as
//! Linux's does. "Touch" means to write the first byte. Areas have a guard page behind them: an
//! area of one page takes two.

mod align;
mod area;
mod fit;
mod mapping;
mod percpu;
mod realloc;
mod size;

pub(crate) use area::Area;

use crate::machine::Machine;
use serde::Serialize;
use std::fmt;
use vmalloc_lab::rng::Rng;

/// One case of the table.
#[derive(Serialize)]
pub(crate) struct Case {
    /// Its bit in `run_test_mask`.
    pub(crate) bit: u64,
    /// Its name in the summary.
    pub(crate) name: &'static str,
    /// Describes one loop, and the areas that are held meanwhile.
    pub(crate) about: &'static str,
    /// The work.
    #[serde(skip)]
    pub(crate) run: Run,
}

/// Runs all loops of a case.
pub(crate) type Run = fn(&mut Context<'_>) -> Result<(), Refusal>;

/// The environment of a case.
pub(crate) struct Context<'m> {
    /// The space, shared with all other workers.
    pub(crate) machine: &'m Machine,
    /// How many workers there are.
    pub(crate) workers: u64,
    /// The most areas that this worker may hold.
    pub(crate) most_held: u64,
    /// How many loops to run.
    pub(crate) loops: u64,
    /// Pages an area of the cases that take the parameter.
    pub(crate) nr_pages: u64,
    /// The size of pages that `use_huge` asks for.
    pub(crate) pages: PageSize,
    /// This worker's random numbers.
    pub(crate) random: Rng,
}

impl Context<'_> {
    /// The loops of a run.
    fn turns(&self) -> impl Iterator<Item = ()> + use<> {
        (0..self.loops).map(|_| ())
    }
}

/// The size of pages that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageSize {
    /// The machine's base pages.
    Base,
    /// Huge pages, where the area has room for one.
    Huge,
}

/// Why a case ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// As it should.
    Expected,
    /// A failure, in words.
    Failed(String),
}

impl<E: fmt::Display> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

const fn case(bit: u64, name: &'static str, run: Run, about: &'static str) -> Case {
    Case { bit, name, about, run }
}

/// All cases, in the order of their bits.
pub(crate) static CASES: [Case; 14] = [
    case(1, "fix_size_alloc_test", size::fix_size, "nr_pages pages, touched"),
    case(2, "full_fit_alloc_test", fit::full_fit, "1 page, touched, into holes of just its size"),
    case(
        4,
        "long_busy_list_alloc_test",
        size::long_busy_list,
        "100 pages and 1, touched, beside 15000 areas",
    ),
    case(8, "random_size_alloc_test", size::random_size, "1 to 100 pages, touched"),
    case(16, "fix_align_alloc_test", align::fix_align, "5 pages of zeros at 16 KiB"),
    case(
        32,
        "random_size_align_alloc_test",
        align::random_size_align,
        "1 to 10 pages of zeros at 1 B to 4 MiB",
    ),
    case(64, "align_shift_alloc_test", align::align_shift, "1 page at each power of two; fails as expected"),
    case(128, "pcpu_alloc_test", percpu::alloc, "once: 35000 groups of an area for each CPU, then all freed"),
    case(1024, "vm_map_ram_test", mapping::vm_map_ram, "nr_pages frames mapped, touched and unmapped"),
    case(2048, "no_block_alloc_test", size::no_block, "nr_pages pages, touched; nothing is waited for"),
    case(4096, "vrealloc_test", realloc::vrealloc, "1 to 16 pages, grown and shrunk, what they hold checked"),
    case(8192, "le_fit_alloc_test", fit::left_edge, "3 pages, touched: a hole's left edge"),
    case(16384, "re_fit_alloc_test", fit::right_edge, "3 pages at 4, touched: a hole's right edge"),
    case(32768, "ne_fit_alloc_test", fit::no_edge, "2 pages at 4, touched: a hole's middle"),
];

/// The most pages that a case takes up with each area it holds, guard page and hole included.
pub(crate) const PAGES_HELD_EACH: u64 = fit::GROUP_PAGES as u64;

/// The most areas that any case wants to hold.
pub(crate) fn most_wanted(lazy_max_pages: u64) -> u64 {
    fit::full_fit_areas(lazy_max_pages).max(size::BUSY_AREAS)
}

/// The case of this name.
pub(crate) fn by_name(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

/// The cases of `mask`, in the order of their bits.
pub(crate) fn of_mask(mask: u64) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(move |case| case.bit & mask != 0)
}

/// The bits of all cases in the table.
pub(crate) fn known_mask() -> u64 {
    CASES.iter().map(|case| case.bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_bit_and_a_name_of_its_own() {
        for case in &CASES {
            assert!(case.bit.is_power_of_two(), "{}", case.name);
            assert!(std::ptr::eq(by_name(case.name).expect("in the table"), case));
        }
        assert_eq!(known_mask(), 0xffff & !(256 | 512));
    }
}
