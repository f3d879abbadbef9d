//! Cases about sizes.

use super::area::request;
use super::{Area, Context, PageSize, Refusal};

/// Areas that `long_busy_list` holds.
pub(super) const BUSY_AREAS: u64 = 15_000;
/// The large area of `long_busy_list`, and the largest of `random_size`, in pages.
const MANY_PAGES: u64 = 100;
/// The size of a huge page: x86-64 and most others with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// A loop: `nr_pages` pages, touched.
///
/// With `use_huge`, areas that have room for a huge page start at one, so that the kernel may put transparent
/// huge pages behind them.
pub(super) fn fix_size(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let mut wanted = request(machine, context.nr_pages);
    let holds_huge = context.nr_pages >= (HUGE_BYTES / machine.page_bytes) as u64;
    if context.pages == PageSize::Huge && holds_huge {
        wanted = wanted.align(HUGE_BYTES);
    }
    for _ in context.turns() {
        touch_and_free(Area::new(machine, &wanted)?)?;
    }
    Ok(())
}

/// Held: 15,000 areas of one page. A loop: 100 pages and one page, both touched.
pub(super) fn long_busy_list(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let held = Area::many(BUSY_AREAS.min(context.most_held), || Area::of_pages(machine, 1))?;
    for _ in context.turns() {
        let mut large = Area::of_pages(machine, MANY_PAGES)?;
        let mut small = Area::of_pages(machine, 1)?;
        large.touch();
        small.touch();
        large.free()?;
        small.free()?;
    }
    free_all(held)
}

/// A loop: 1 to 100 pages, touched.
pub(super) fn random_size(context: &mut Context<'_>) -> Result<(), Refusal> {
    for _ in context.turns() {
        let pages = 1 + context.random.below(MANY_PAGES);
        touch_and_free(Area::of_pages(context.machine, pages)?)?;
    }
    Ok(())
}

pub(super) fn touch_and_free(mut area: Area<'_>) -> Result<(), Refusal> {
    area.touch();
    Ok(area.free()?)
}

pub(super) fn free_all<'m>(areas: impl IntoIterator<Item = Area<'m>>) -> Result<(), Refusal> {
    areas.into_iter().try_for_each(|area| Ok(area.free()?))
}
