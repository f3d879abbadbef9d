//! Operations that lose something when a step fails: the harness notices each.

use super::scene::{PAGE, empty};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vmalloc::{Frame, FrameSupply, PageRange, Platform, Protection, Request, Space, SpaceOptions};
use vmalloc_sim::Sim;
use vmalloc_sim::harness::{free_all, walk};

type Operation = fn(&Space<Sim>, &mut ()) -> Result<(), ()>;

fn is_caught(operation: Operation) -> bool {
    let setup = || (empty(SpaceOptions::default()), ());
    let run = || walk("a mistake", &[], setup, operation, |space, ()| free_all(space));
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

fn reserve(space: &Space<Sim>) -> Result<usize, ()> {
    space.raw().reserve(&Request::new(2 * PAGE)).map_err(drop)
}

fn pages(addr: usize) -> PageRange {
    PageRange::from_len((addr / PAGE) as u64, 2).expect("not empty")
}

#[test]
fn correct_operations_are_not_caught() {
    assert!(!is_caught(|space, ()| reserve(space).map(|_| ())));
}

#[test]
fn frames_that_an_error_keeps_are_caught() {
    assert!(is_caught(|space, ()| {
        space.platform().take_frames(&mut [Frame(0); 2]).map_err(drop)?;
        reserve(space).map(|_| ())
    }));
}

#[test]
fn memory_outside_of_every_area_is_caught() {
    assert!(is_caught(|space, ()| {
        let addr = reserve(space)?;
        // SAFETY: the range was just reserved.
        unsafe { space.platform().map(pages(addr), Protection::ReadWrite) }.map_err(|_| {
            // Not what was reserved.
            // SAFETY: nothing is there, so nothing uses it.
            let _ = unsafe { space.platform().map(pages(addr + 64 * PAGE), Protection::ReadWrite) };
        })
    }));
}

#[test]
fn an_error_without_a_reason_is_caught() {
    assert!(is_caught(|space, ()| reserve(space).and(Err(()))));
}

#[test]
fn an_error_that_cannot_be_repeated_is_caught() {
    assert!(is_caught(|space, ()| {
        let is_first = space.stats().busy_areas == 0;
        // The addresses are taken although there is no memory for them.
        let addr = if is_first { reserve(space)? } else { return Err(()) };
        // SAFETY: the range was just reserved.
        unsafe { space.platform().map(pages(addr), Protection::ReadWrite) }.map_err(drop)
    }));
}
