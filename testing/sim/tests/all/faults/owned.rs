//! Owned types: whatever fails between two of them, nothing is lost.

use super::scene::{Areas, PAGE, all_options, direct, empty};
use crate::short;
use vmalloc::{
    AllocError, Area, AreaError, Frames, Mapping, PagedArea, Protection, ReadOnlyMapping, Request,
    Reservation, Space, SpaceOptions, Translate,
};
use vmalloc_percpu::{CongruentAreas, CongruentError};
use vmalloc_short::ShortMapping;
use vmalloc_sim::harness::{free_all, walk};
use vmalloc_sim::{Direct, Point, Sim};
use vmalloc_sim::{Due, heap};

/// Frames wait for the flush of the areas that showed them, so an error is seen after a purge.
fn settled<E>(space: &Space<Sim>, result: Result<(), E>) -> Result<(), E> {
    result.inspect_err(|_| _ = space.purge())
}

fn mappings(space: &Space<Sim>) -> Result<(), AllocError> {
    let (frames, short) = (Frames::new(space, 5)?, short(space));
    let (one, two) = (Mapping::new(&frames)?, ShortMapping::new(&short, &frames)?);
    let three = ReadOnlyMapping::new(&frames)?;
    drop(frames);
    drop((one, three));
    let frames = Frames::consecutive(space, 3, 2)?;
    let other = ShortMapping::new(&short, &frames)?;
    drop((two, frames, other));
    Ok(())
}

fn paged(space: &Space<Sim>) -> Result<(), AreaError> {
    let mut area = PagedArea::new(space, &Request::new(20 * PAGE).tag("paged"))?;
    area.commit(12 * PAGE..20 * PAGE)?;
    area.decommit(14 * PAGE..16 * PAGE)?;
    let frames = Frames::new(space, 2)?;
    area.map(3 * PAGE, &frames, Protection::ReadWrite)?;
    area.map(9 * PAGE, &frames, Protection::Read)?;
    drop(frames);
    // SAFETY: nothing uses the pages.
    unsafe { area.unmap(3 * PAGE) }
}

fn areas(space: &Space<Sim>) -> Result<(), AreaError> {
    let reserved = Reservation::new(space, &Request::new(7 * PAGE))?;
    let mut area = Area::new(space, &Request::new(PAGE + 1).tag("grows"))?;
    match area.grow_in_place(5 * PAGE) {
        Ok(()) | Err(AreaError::Alloc(AllocError::Occupied { .. })) => {}
        Err(error) => return Err(error),
    }
    drop(reserved);
    let leaked = area.leak();
    // SAFETY: it was leaked a moment ago.
    drop(unsafe { Area::from_raw(space, leaked) });
    Ok(())
}

fn group(space: &Space<Sim>) -> Result<(), CongruentError> {
    let group = CongruentAreas::new(space, &[0, 8 * PAGE], &[2 * PAGE, PAGE], PAGE)?;
    assert!(group.area(1).is_some_and(|addr| space.find(addr).is_some()));
    Ok(())
}

/// Makes one, uses it, and drops it; makes another, and keeps its memory.
fn buffers(space: &Space<Direct>, areas: &mut Areas) -> Result<(), AllocError> {
    let mut buffer = space.zeroed_buffer(20 * PAGE + 1)?;
    assert!(buffer.iter().all(|&byte| byte == 0));
    buffer.fill(7);
    let memory = space.buffer(20 * PAGE + 1)?.into_raw().0;
    areas.push(memory.as_ptr().expose_provenance());
    Ok(())
}

#[test]
fn owned_types_lose_nothing_whatever_fails() {
    for (_, settings) in all_options() {
        let begin = || {
            let space = empty(settings);
            // Its records would be made by the operation.
            let _ = short(&space);
            (space, ())
        };
        let nothing = |_: &Space<Sim>, ()| ();
        walk("Frames and mappings", &[Point::Heap], begin, |it, ()| settled(it, mappings(it)), nothing);
        walk("PagedArea", &[], begin, |space, ()| settled(space, paged(space)), nothing);
        walk("Area, Reservation", &[], begin, |space, ()| areas(space), nothing);
        walk("CongruentAreas", &[], begin, |space, ()| group(space), nothing);
        let begin = || (direct(settings), Areas::with_capacity(8));
        let points = [Point::Frame, Point::Map, Point::Heap];
        walk("Buffer", &points, begin, buffers, |space, _| free_all(space));
    }
}

/// A flush that is refused memory says so, or has unmapped every short mapping without it.
#[test]
fn a_flush_without_memory_is_an_error_or_flushes_everything() {
    let mut errors = 0;
    for nth in 1.. {
        let space = empty(SpaceOptions::default());
        let (frames, short) = (Frames::new(&space, 3).expect("there are frames"), short(&space));
        // More than one block, with slots in use in between.
        let mappings: Vec<_> = (0..60).map(|_| ShortMapping::new(&short, &frames).expect("room")).collect();
        let (kept, ended): (Vec<_>, Vec<_>) =
            mappings.into_iter().enumerate().partition(|(nth, _)| nth % 7 == 0);
        let ended: Vec<u64> = ended.into_iter().map(|(_, mapping)| (mapping.addr() / PAGE) as u64).collect();
        let (result, demand) = heap::short_of(Due::Nth(nth), || space.flush());
        let is_gone = |&page: &u64| space.platform().physical_page(page).is_none();
        assert!(result.is_err() || ended.iter().all(is_gone), "memory refused at {nth}");
        errors += u64::from(result.is_err());
        drop((kept, frames));
        let (result, _) = heap::short_of(Due::Nth(nth), || space.flush());
        assert!(result.is_err() || space.platform().taken_frames().is_empty(), "memory refused at {nth}");
        space.flush().expect("there is memory");
        assert_eq!(space.platform().taken_frames(), []);
        assert_eq!(space.platform().check_end(), []);
        if demand.refused == 0 {
            break;
        }
    }
    assert!(errors > 0);
}
