//! Cases about sizes.

use super::area::request;
use super::{Area, Context, PageSize, Refusal};
use vmalloc::Request;

/// Areas that `long_busy_list` holds.
pub(super) const BUSY_AREAS: u64 = 15_000;
/// The large area of `long_busy_list`, and the largest of `random_size`, in pages.
const MANY_PAGES: u64 = 100;

/// A loop: `nr_pages` pages, touched. With `use_huge` in huge pages, where they have room for one.
pub(super) fn fix_size(context: &mut Context<'_>) -> Result<(), Refusal> {
    let wanted = sized(context);
    for () in context.turns() {
        touch_and_free(Area::new(context.machine, &wanted)?)?;
    }
    Ok(())
}

fn sized(context: &Context<'_>) -> Request {
    let wanted = request(context.machine, context.nr_pages);
    if context.pages == PageSize::Huge { wanted.huge() } else { wanted }
}

/// A loop: `nr_pages` pages, touched, and nothing waited for. A refusal is expected where only
/// waiting for freed areas brings what is wanted.
pub(super) fn no_block(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let patient = request(machine, context.nr_pages);
    for () in context.turns() {
        match Area::new(machine, &patient.may_block(false)) {
            Ok(area) => touch_and_free(area)?,
            Err(_) => {
                touch_and_free(Area::new(machine, &patient)?)?;
                return Err(Refusal::Expected);
            }
        }
    }
    Ok(())
}

/// Held: 15,000 areas of one page. A loop: 100 pages and one page, both touched.
pub(super) fn long_busy_list(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let held = Area::many(BUSY_AREAS.min(context.most_held), || Area::of_pages(machine, 1))?;
    for () in context.turns() {
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
    for () in context.turns() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, MachineOptions};

    #[test]
    fn use_huge_asks_for_huge_pages() {
        let machine = Machine::new(MachineOptions::default()).expect("a machine with address space");
        let Some(order) = machine.space.geometry().huge_order else { return };
        let nr_pages = 3 << order;
        let mut context = Context {
            machine: &machine,
            workers: 1,
            most_held: 1,
            loops: 1,
            nr_pages,
            pages: PageSize::Huge,
            random: vmalloc_lab::rng::Rng::new(0),
        };
        let first_page = |context: &Context<'_>| {
            let area = Area::new(&machine, &sized(context)).expect("room");
            area.addr() / machine.page_bytes
        };
        let odd = Area::of_pages(&machine, 1).expect("room");
        assert_eq!(first_page(&context) % (1 << order), 0);
        // What waits would serve it, and larger ones begin at a huge page in any case.
        machine.space.purge().expect("nothing is locked");
        (context.pages, context.nr_pages) = (PageSize::Base, 1 << order);
        assert_ne!(first_page(&context) % (1 << order), 0, "it begins behind the one page");
        drop(odd);
    }
}
