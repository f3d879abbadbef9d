//! Cases about the place of an area in the hole that it is cut from.
//!
//! `full_fit` holds every second of a row of one-page areas, so that each hole has just room for one:
//!
//! ```text
//!   busy guard │ hole hole │ busy guard │ hole hole │ …
//! ```
//!
//! The other three hold one-page areas at every eighth page, so that holes of six pages remain, each from the
//! third page of an aligned group of eight. What the loop asks for is cut from there (g is its guard page):
//!
//! ```text
//!   page        0    1     2 3 4 5 6 7
//!               busy guard . . . . . .      a hole
//!   left edge   busy guard a a a g . .      3 pages anywhere
//!   right edge  busy guard . . a a a g      3 pages at a multiple of 4
//!   no edge     busy guard . . a a g .      2 pages at a multiple of 4
//! ```
//!
//! That is where the *first* loop of a worker is served. With retention later loops get the same area back,
//! and with many workers holes are shared.

use super::size::{free_all, touch_and_free};
use super::{Area, Context, Refusal};

/// Pages of a group of busy area and hole.
const GROUP_PAGES: usize = 8;
/// The alignment, in pages, that starts in the middle of a group.
const HALF_PAGES: usize = GROUP_PAGES / 2;

/// Held: areas of one page in twice the number of lazy_max pages, every second freed and purged. A loop: one
/// page, touched.
pub(super) fn full_fit(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let junk = Area::many(2 * machine.lazy_max_pages, || Area::of_pages(machine, 1))?;
    let held = free_every_second(junk)?;
    machine.space.purge()?;
    for _ in 0..context.loops {
        touch_and_free(Area::of_pages(machine, 1)?)?;
    }
    free_all(held)
}

fn free_every_second(areas: Vec<Area<'_>>) -> Result<Vec<Area<'_>>, Refusal> {
    let mut held = Vec::with_capacity(areas.len().div_ceil(2));
    for (index, area) in areas.into_iter().enumerate() {
        if index % 2 == 0 { held.push(area) } else { area.free()? }
    }
    Ok(held)
}

/// A loop: three pages anywhere.
pub(super) fn left_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    cut(context, 3, 1)
}

/// A loop: three pages that end where their hole does.
pub(super) fn right_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    cut(context, 3, HALF_PAGES)
}

/// A loop: two pages that leave something of their hole on both sides.
pub(super) fn no_edge(context: &mut Context<'_>) -> Result<(), Refusal> {
    cut(context, 2, HALF_PAGES)
}

/// Held: as many groups as there are lazy_max pages, which is the number of holes of `full_fit`.
fn cut(context: &Context<'_>, pages: u64, align_pages: usize) -> Result<(), Refusal> {
    let machine = context.machine;
    let (group, align) = (GROUP_PAGES * machine.page_bytes, align_pages * machine.page_bytes);
    let held = Area::many(machine.lazy_max_pages, || Area::aligned(machine, 1, group))?;
    for _ in 0..context.loops {
        touch_and_free(Area::aligned(machine, pages, align)?)?;
    }
    free_all(held)
}
