//! A little of everything that a space does, with every refusal noted.

use super::check;
use crate::common::{assert_words, cause, fill_words, free, get, give, page_bytes};
use vmalloc::{
    AllocError, AreaError, Frame, FrameSupply, Platform, PlatformError, Protection, Request, Space, Stats,
};
use vmalloc_linux::Linux;
use vmalloc_short::ShortMaps;

/// Pages of the areas that are in use at once.
const SIZES: [usize; 9] = [1, 2, 5, 17, 64, 300, 3, 1, 2500];

/// Frames that may still be mapped somewhere.
#[derive(Default)]
pub(crate) struct Owed(Vec<Frame>);

impl Owed {
    /// Gives them back after a purge that refused nothing.
    pub(crate) fn give(self, space: &Space<Linux>) {
        give(space.platform(), &self.0);
    }
}

/// The results of an exercise.
#[derive(Default)]
pub(crate) struct Done {
    /// Allocations and mappings that worked.
    pub(crate) worked: usize,
    /// Why others did not.
    pub(crate) refusals: Vec<PlatformError>,
    pub(crate) owed: Owed,
}

impl Done {
    /// Asserts that each refusal is as it has to be.
    #[track_caller]
    pub(crate) fn refused_by(&self, is_meant: impl Fn(&PlatformError) -> bool) {
        assert!(self.refusals.iter().all(is_meant), "{:?}", self.refusals);
    }

    fn note<T>(&mut self, result: Result<T, impl Into<AreaError>>) -> Option<T> {
        match result.map_err(Into::into) {
            Ok(made) => {
                self.worked += 1;
                Some(made)
            }
            Err(AreaError::Platform(cause)) => {
                self.refusals.push(cause);
                None
            }
            Err(AreaError::Alloc(AllocError::Unbacked(refused))) => {
                self.refusals.push(refused.cause);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Exercises a space three times.
pub(crate) fn exercise(space: &Space<Linux>) -> Done {
    exercise_for(space, 3)
}

/// Allocates, writes and reads, resizes, maps frames, frees and purges, so many times, and leaves
/// nothing behind but what is refused.
pub(crate) fn exercise_for(space: &Space<Linux>, rounds: usize) -> Done {
    let mut done = Done::default();
    for round in 0..rounds {
        areas(space, &mut done, round);
        frames(space, &mut done);
        check(space);
    }
    done
}

fn areas(space: &Space<Linux>, done: &mut Done, round: usize) {
    let mut areas = Vec::with_capacity(SIZES.len());
    for (nth, pages) in SIZES.into_iter().enumerate() {
        let request = Request::new(pages * page_bytes());
        let request = if nth % 2 == round % 2 { request.zeroed() } else { request };
        let Some(addr) = done.note(space.raw().alloc(&request)) else { continue };
        assert!(
            nth % 2 != round % 2 || (0..pages).all(|page| get(addr + page * page_bytes()) == 0),
            "not zeros"
        );
        fill_words(addr, pages);
        areas.push((addr, pages));
    }
    for (addr, pages) in &mut areas {
        let wanted = if *pages % 2 == 0 { *pages / 2 } else { *pages + 9 };
        // SAFETY: the area is the test's.
        let moved = unsafe { space.raw().realloc(*addr, &vmalloc::Resize::new(wanted * page_bytes())) };
        if let Some(moved) = done.note(moved) {
            assert_words(moved, wanted.min(*pages));
            fill_words(moved, wanted);
            (*addr, *pages) = (moved, wanted);
        }
    }
    for (addr, pages) in areas {
        assert_words(addr, pages);
        free(space, addr);
    }
    let purged = space.purge();
    let Stats { refused_areas, refused_parts, pending_ranges, .. } = space.stats();
    assert_eq!(purged.is_err(), refused_areas + refused_parts + pending_ranges > 0, "{purged:?}");
    done.note(purged.map_err(cause));
}

fn frames(space: &Space<Linux>, done: &mut Done) {
    let mut frames = [Frame(0); 6];
    if done.note(space.platform().take_frames(&mut frames)).is_none() {
        return;
    }
    let scattered = [frames[4], frames[0], frames[2]];
    if let Some(addr) = done.note(space.raw().map(&scattered, Protection::ReadWrite, None)) {
        fill_words(addr, 3);
        assert_words(addr, 3);
        // SAFETY: nothing uses the mapping any more.
        unsafe { space.raw().unmap(addr) }.unwrap();
    }
    if let Some(addr) = done.note(ShortMaps::of(space).unwrap().map(&scattered)) {
        fill_words(addr, 3);
        assert_words(addr, 3);
        // SAFETY: as above.
        unsafe { ShortMaps::of(space).unwrap().unmap(addr, 3) }.unwrap();
    }
    let flushed = space.flush();
    if flushed.is_ok() {
        give(space.platform(), &frames);
    } else {
        done.owed.0.extend(frames);
    }
    done.note(flushed.map_err(cause));
}

/// Returns true if an address is in the span.
pub(crate) fn is_inside(space: &Space<Linux>, addr: u64) -> bool {
    space.platform().geometry().span.contains(addr / page_bytes() as u64)
}
