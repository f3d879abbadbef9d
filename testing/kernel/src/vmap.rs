//! How many instructions a `vmap` of 100 MB takes, by the runs that its frames come in: rows of
//! [`count`](crate::count).

use crate::clock::ticks;
use crate::world::{Failure, Outcome, World};
use alloc::vec::Vec;
use vmalloc::{Frame, FrameSupply, Protection};

/// Pages of 100 MB.
const PAGES: u64 = 25_600;
/// Turns of a row: the counter counts exactly.
const TURNS: u64 = 4;
/// log2 of the frames that follow each other: single ones, the runs that Linux's figures are of,
/// and those that one leaf of 2 MiB shows.
pub(crate) const ORDERS: [u32; 3] = [0, 8, 9];

/// Frames in aligned runs of 2^order, of which none follows the one before. They go back by
/// themselves.
struct Runs<'w> {
    world: &'w World,
    frames: Vec<Frame>,
}

impl<'w> Runs<'w> {
    fn new(world: &'w World, order: u32) -> Result<Self, vmalloc::PlatformError> {
        let first = world.space.platform().take_run(PAGES, 1 << 9)?;
        let nth = |place: u64| {
            let (run, inside) = (place >> order, place & ((1 << order) - 1));
            first.plus(((PAGES >> order) - 1 - run << order) + inside)
        };
        Ok(Self { world, frames: (0..PAGES).map(nth).collect() })
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        // SAFETY: taken by `new`, and mapped nowhere any more.
        unsafe { self.world.space.platform().give_frames(&self.frames) };
    }
}

/// The ticks of mapping the frames, and of unmapping them and the purge after it.
#[derive(Default)]
pub(crate) struct Ticks {
    pub(crate) map: u64,
    pub(crate) unmap: u64,
}

/// Returns the ticks of one turn, for runs of 2^order.
pub(crate) fn measure(world: &World, order: u32) -> Result<Ticks, Failure> {
    let runs = Runs::new(world, order)?;
    // Makes the page tables, which stay.
    turn(world, &runs.frames, &mut Ticks::default())?;
    let mut sum = Ticks::default();
    for _ in 0..TURNS {
        turn(world, &runs.frames, &mut sum)?;
    }
    Ok(Ticks { map: sum.map / TURNS, unmap: sum.unmap / TURNS })
}

fn turn(world: &World, frames: &[Frame], sum: &mut Ticks) -> Outcome {
    let start = ticks();
    let addr = world.space.raw().map(frames, Protection::ReadWrite, None)?;
    let mapped = ticks();
    // SAFETY: nothing uses it.
    unsafe { world.space.raw().unmap(addr) }?;
    world.space.purge()?;
    sum.map += mapped - start;
    sum.unmap += ticks() - mapped;
    Ok(())
}
