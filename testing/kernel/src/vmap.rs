//! How many instructions a `vmap` of 100 MB takes, by the runs that its frames come in: rows of
//! [`count`](crate::count).

use crate::clock::ticks;
use crate::world::{Failure, Outcome, World};
use alloc::vec::Vec;
use vmalloc::{Frame, FrameRun, FrameSupply, Protection};

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
    runs: Vec<FrameRun>,
    frames: Vec<Frame>,
}

impl<'w> Runs<'w> {
    fn new(world: &'w World, order: u32) -> Result<Self, vmalloc::PlatformError> {
        let first = world.space.platform().take_run(PAGES, 1 << 9)?;
        let run = |nth: u64| FrameRun { first: first.plus(nth << order), count: 1 << order };
        let runs: Vec<FrameRun> = (0..PAGES >> order).rev().map(run).collect();
        let frames = runs.iter().flat_map(|run| run.frames()).collect();
        Ok(Self { world, runs, frames })
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        // SAFETY: taken by `new`, and mapped nowhere any more.
        unsafe { self.world.space.platform().give_frames(&self.frames) };
    }
}

/// The ticks of a turn's parts.
#[derive(Default)]
pub(crate) struct Ticks {
    /// Mapping a list of the frames.
    pub(crate) map: u64,
    /// Mapping the runs.
    pub(crate) map_runs: u64,
    /// Unmapping that, and a purge.
    pub(crate) unmap: u64,
}

/// Returns the ticks of one turn, for runs of 2^order.
pub(crate) fn measure(world: &World, order: u32) -> Result<Ticks, Failure> {
    let runs = Runs::new(world, order)?;
    // Makes the page tables, which stay.
    turn(world, &runs)?;
    let mut sum = Ticks::default();
    for _ in 0..TURNS {
        let turn = turn(world, &runs)?;
        sum.map += turn.map / TURNS;
        sum.map_runs += turn.map_runs / TURNS;
        sum.unmap += turn.unmap / TURNS;
    }
    Ok(sum)
}

fn turn(world: &World, runs: &Runs<'_>) -> Result<Ticks, Failure> {
    let raw = world.space.raw();
    let start = ticks();
    let addr = raw.map(&runs.frames, Protection::ReadWrite, None)?;
    let map = ticks() - start;
    unmap(world, addr)?;
    let start = ticks();
    let addr = raw.map_runs(&runs.runs, Protection::ReadWrite, None)?;
    let map_runs = ticks() - start;
    let start = ticks();
    unmap(world, addr)?;
    Ok(Ticks { map, map_runs, unmap: ticks() - start })
}

fn unmap(world: &World, addr: usize) -> Outcome {
    // SAFETY: nothing uses it.
    unsafe { world.space.raw().unmap(addr) }?;
    world.space.purge()?;
    Ok(())
}
