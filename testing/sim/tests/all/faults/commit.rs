//! Memory behind parts of reserved areas, when each step fails.

use super::scene::{PAGE, Scene, configs};
use super::table;
use std::ops::Range;
use vmalloc::{AreaError, PagedArea, Request, Space};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Point, Sim};

/// The address of a reserved area, some of which may be committed.
type Reserved = usize;

/// Pages of the area.
const PAGES: usize = 40;

fn parts(addr: usize) -> [Range<usize>; 3] {
    [12..15, 3..4, 30..40].map(|pages| addr + pages.start * PAGE..addr + pages.end * PAGE)
}

fn reserved(space: &Space<Sim>) -> Reserved {
    space.raw().reserve(&Request::new(PAGES * PAGE)).expect("nothing fails")
}

/// Every page that is committed can be written, and nothing else has memory.
fn commit(space: &Space<Sim>, addr: &mut Reserved) -> Result<(), AreaError> {
    // SAFETY: the area is the case's, and nothing of it is committed.
    unsafe { space.raw().commit(&parts(*addr)) }?;
    for page in parts(*addr).into_iter().flat_map(|part| part.step_by(PAGE)) {
        space.platform().write(0, (page / PAGE) as u64, 7).expect("it is committed");
    }
    Ok(())
}

fn release(space: &Space<Sim>, addr: Reserved) {
    // SAFETY: nothing uses the area any more.
    unsafe { space.raw().unreserve(addr) }.expect("it is reserved");
    free_all(space);
}

#[test]
fn parts_of_areas() {
    for (config, settings) in configs() {
        let empty = move || {
            let space = Scene::empty(settings).build().0;
            let addr = reserved(&space);
            (space, addr)
        };
        let used = move || {
            let (space, mut addr) = empty();
            commit(&space, &mut addr).expect("nothing fails");
            (space, addr)
        };
        // SAFETY: the area is the case's: here and below.
        let decommit =
            |space: &Space<Sim>, addr: &mut Reserved| unsafe { space.raw().decommit(&parts(*addr)) };
        // SAFETY: as above.
        let discard = |space: &Space<Sim>, addr: &mut Reserved| unsafe { space.raw().discard(&parts(*addr)) };
        // SAFETY: as above.
        let reset = |space: &Space<Sim>, addr: &mut Reserved| unsafe { space.raw().reset(&parts(*addr)) };
        let [frame, map] = [Point::Frame, Point::Map].map(Step::Machine);
        let [unmap, flush] = [Point::Unmap, Point::Flush].map(Step::Machine);
        let discarded = Step::Machine(Point::Discard);
        table(
            config,
            [
                Case::new("commit", empty, commit, release).meets([frame, map, Step::Heap]),
                Case::new("decommit", used, decommit, release).meets([unmap, flush, Step::Heap]),
                Case::new("discard", used, discard, release).meets([discarded, Step::Heap]),
                Case::new("reset", used, reset, release).meets([Step::Heap]),
            ],
        );
    }
}

#[test]
fn paged_areas() {
    for (config, settings) in configs() {
        let empty = move || (Scene::empty(settings).build().0, ());
        let used = |space: &Space<Sim>, _: &mut ()| -> Result<(), AreaError> {
            let mut area = PagedArea::new(space, &Request::new(PAGES * PAGE))?;
            area.commit(0..8 * PAGE)?;
            area.decommit(2 * PAGE..4 * PAGE)
        };
        let release = |space: &Space<Sim>, ()| free_all(space);
        table(config, [Case::new("paged area", empty, used, release).meets([Step::Heap])]);
    }
}
