//! Cases about the place of an area in the hole that it is cut from.
//!
//! `full_fit` holds every second of a row of one-page areas, so that each hole has just room for
//! one:
//!
//! ```text
//!   busy guard │ hole hole │ busy guard │ hole hole │ …
//! ```
//!
//! The other three hold one-page areas at every eighth page, so that holes of six pages remain,
//! each from the third page of an aligned group of eight. What the loop asks for is cut from there
//! (g is its guard page):
//!
//! ```text
//!   page        0    1     2 3 4 5 6 7
//!               busy guard . . . . . .      a hole
//!   left edge   busy guard a a a g . .      3 pages anywhere
//!   right edge  busy guard . . a a a g      3 pages at a multiple of 4
//!   no edge     busy guard . . a a g .      2 pages at a multiple of 4
//! ```
//!
//! That is where the *first* loop of a worker is served. With caching later loops get the same area
//! back, and with many workers holes are shared.

use super::size::{free_all, touch_and_free};
use super::{Area, Context, Refusal};
use crate::machine::Machine;
use vmalloc::AllocError;

/// Pages of a group of busy area and hole.
pub(super) const GROUP_PAGES: usize = 8;

/// Held: areas of one page in twice the number of lazy_max pages, every second freed and purged. A
/// loop: one page, touched.
pub(super) fn full_fit(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let areas = full_fit_areas(machine.lazy_max_pages).min(context.most_held);
    let junk = Area::many(areas, || Area::of_pages(machine, 1))?;
    let held = free_every_second(junk)?;
    machine.space.purge()?;
    for _ in context.turns() {
        touch_and_free(Area::of_pages(machine, 1)?)?;
    }
    free_all(held)
}

/// How many areas [`full_fit`] makes before it frees every second.
pub(super) const fn full_fit_areas(lazy_max_pages: u64) -> u64 {
    2 * lazy_max_pages
}

fn free_every_second(areas: Vec<Area<'_>>) -> Result<Vec<Area<'_>>, Refusal> {
    let mut held = Vec::with_capacity(areas.len().div_ceil(2));
    for (index, area) in areas.into_iter().enumerate() {
        if index % 2 == 0 { held.push(area) } else { area.free()? }
    }
    Ok(held)
}

/// A request: its pages, and the multiple of pages to start at.
#[derive(Clone, Copy)]
struct Cut {
    pages: u64,
    align_pages: usize,
}

const LEFT_EDGE: Cut = Cut { pages: 3, align_pages: 1 };
const RIGHT_EDGE: Cut = Cut { pages: 3, align_pages: GROUP_PAGES / 2 };
const NO_EDGE: Cut = Cut { pages: 2, align_pages: GROUP_PAGES / 2 };

/// A loop: three pages anywhere.
pub(super) fn left_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    run(context, LEFT_EDGE)
}

/// A loop: three pages that end where their hole does.
pub(super) fn right_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    run(context, RIGHT_EDGE)
}

/// A loop: two pages that leave something of their hole on both sides.
pub(super) fn no_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    run(context, NO_EDGE)
}

fn run(context: &Context<'_>, cut: Cut) -> Result<(), Refusal> {
    let machine = context.machine;
    // Lazy areas would come back during the loops, below the holes.
    machine.space.purge()?;
    let held = groups(machine, machine.lazy_max_pages.min(context.most_held))?;
    for _ in context.turns() {
        touch_and_free(cut.area(machine)?)?;
    }
    free_all(held)
}

/// `count` groups: in a run as many as there are lazy_max pages, which is the number of holes of
/// `full_fit`.
fn groups(machine: &Machine, count: u64) -> Result<Vec<Area<'_>>, AllocError> {
    let align = GROUP_PAGES * machine.page_bytes;
    Area::many(count, || Area::aligned(machine, 1, align))
}

impl Cut {
    fn area(self, machine: &Machine) -> Result<Area<'_>, AllocError> {
        Area::aligned(machine, self.pages, self.align_pages * machine.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineOptions, Strategy};

    /// With one node: another CPU keeps to leaves of its own, wherever holes are.
    fn machine() -> Machine {
        let options = MachineOptions { strategy: Strategy::Unmap, guards: None, nodes: Some(1) };
        Machine::new(options).expect("a machine with address space")
    }

    #[test]
    fn areas_are_cut_from_the_edge_that_names_the_case() {
        let machine = machine();
        let held = groups(&machine, 100).expect("room for the groups");
        for (cut, first_page) in [(LEFT_EDGE, 2), (RIGHT_EDGE, 4), (NO_EDGE, 4)] {
            let area = cut.area(&machine).expect("room in a hole");
            assert_eq!(area.addr() / machine.page_bytes % GROUP_PAGES, first_page);
            assert!(held.iter().any(|held| held.addr() > area.addr()), "not behind all holes");
        }
        assert_eq!(held.len(), 100);
    }

    #[test]
    fn every_second_area_is_freed() {
        let machine = machine();
        let row = Area::many(5, || Area::of_pages(&machine, 1)).expect("five pages");
        let all: Vec<_> = row.iter().map(Area::addr).collect();
        let held = free_every_second(row).expect("areas of our own");
        assert_eq!(held.iter().map(Area::addr).collect::<Vec<_>>(), [all[0], all[2], all[4]]);
    }
}
